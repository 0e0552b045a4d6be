"""palctl report: files that are whole or not there, and sentences where there is nothing to write or nowhere to."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput, ConfigError, StoreError
from pal_slurm.store import GpuRepo, Sighting, open_store

Palctl = Callable[..., Result]


@pytest.fixture
def empty(tmp_path: Path) -> Palctl:
    """A database without any GPU."""
    path = tmp_path / "pal.yaml"
    path.write_text(f"state_dir: {tmp_path}\n")

    def invoke(*words: str | Path) -> Result:
        return CliRunner().invoke(palctl, ["--config", str(path), *map(str, words)])

    assert invoke("db", "upgrade").exit_code == 0
    return invoke


@pytest.fixture
def run(empty: Palctl, tmp_path: Path) -> Palctl:
    """Two GPUs, one with a score."""
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    GpuRepo(store).see([Sighting("GPU-1", "n1", 0, "A100"), Sighting("GPU-2", "n1", 1, "A100")], 1.0)
    store.close()
    (tmp_path / "s.csv").write_text("node,slot,uuid,class,score\nn1,0,GPU-1,A,1.4\n")
    assert empty("scores", "import", tmp_path / "s.csv").exit_code == 0
    return empty


def said(done: Result, error: type[Exception]) -> str:
    assert isinstance(done.exception, error), done.output
    return str(done.exception)


def test_a_page_is_written_and_told(run: Palctl, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    done = run("report", "--html", page)
    assert done.exit_code == 0, done.output
    assert done.output == f"{page}: 2 GPUs, {page.stat().st_size / 1e6:.2f} MB\n"
    assert page.read_text().startswith("<!DOCTYPE html>\n<html lang")
    assert ">1.40<" in page.read_text()
    assert [path.name for path in tmp_path.glob(".fleet*")] == []


def test_scores_without_nights_are_no_trend(run: Palctl) -> None:
    done = run("report", "--html", "-")
    assert done.output.startswith("<!DOCTYPE html>")
    assert "No night is known yet" in done.output
    assert "No application is known yet" in done.output


def test_json_tells_the_same_figures(run: Palctl) -> None:
    told = json.loads(run("report", "--json").stdout)
    assert [(w["node"], w["slot"], w["score"]) for w in told["worst"]] == [("n1", 0, 1.4)]
    assert told["gpus"][1]["marks"]["A"] == {
        "state": "never", "score": None, "low": None, "high": None, "nights": None, "age_days": None,
    }  # fmt: skip
    assert [c["never"] for c in told["coverage"]] == [1, 2, 2]


def test_one_of_page_and_figures_has_to_be_asked_for(run: Palctl, tmp_path: Path) -> None:
    for words in ((), ("--json", "--html", tmp_path / "x")):
        done = run("report", *words)
        assert done.exit_code == 2
        assert "say one of: --html FILE" in done.output


def test_without_any_gpu_a_sentence_says_what_to_do(empty: Palctl, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    assert "palctl profile run" in said(empty("report", "--html", page), StoreError)
    assert "palctl profile run" in said(empty("report", "--json"), StoreError)
    assert not page.exists()


def test_without_jinja_a_sentence_says_what_to_install(
    run: Palctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    page = tmp_path / "fleet.html"
    assert "pip install 'pal-slurm[report]'" in said(run("report", "--html", page), ConfigError)
    assert not page.exists()
    assert run("report", "--json").exit_code == 0  # figures need no templates


def test_where_no_page_can_be_put_a_sentence_says_why(run: Palctl, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        (str(tmp_path), "is a directory"),
        (f"{tmp_path}/none/fleet.html", "there is no directory"),
        (f"{tmp_path}/pal.yaml/fleet.html", "there is no directory"),
        (f"{tmp_path}/pipe", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("/proc/fleet.html", "can't be written"),
        (f"{tmp_path}/loop", "can't be written"),
        (f"{tmp_path}/{'x' * 300}", "can't be written"),
        ("a\0b", "can't be written"),
    ):
        assert why in said(run("report", "--html", name), BadInput), name
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_full_disk_leaves_the_page_that_was_there(tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    page.write_text("yesterday's")
    code = "import sys, pathlib, pal_slurm.cli.whole_file as w; w.write_whole(pathlib.Path(sys.argv[1]), 'x' * 100_000)"
    limited = ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", sys.executable, "-c", code, str(page)]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(f"BadInput: {page} can't be written: File too large\n")
    assert page.read_text() == "yesterday's"
    assert list(tmp_path.iterdir()) == [page]


def test_a_page_keeps_its_mode_and_a_link_stays_a_link(run: Palctl, tmp_path: Path) -> None:
    page, link = tmp_path / "fleet.html", tmp_path / "link.html"
    page.write_text("old")
    page.chmod(0o640)
    link.symlink_to(page)
    assert run("report", "--html", link).exit_code == 0
    assert link.is_symlink()
    assert stat.S_IMODE(page.stat().st_mode) == 0o640
    assert page.read_text() != "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a link to another user")
def test_a_link_of_another_user_is_not_followed(run: Palctl, tmp_path: Path) -> None:
    """In /tmp, say, before root writes a page there."""
    target = tmp_path / "target"
    target.write_text("untouched")
    (tmp_path / "fleet.html").symlink_to(target)
    os.chown(tmp_path / "fleet.html", 65534, 65534, follow_symlinks=False)
    done = run("report", "--html", str(tmp_path / "fleet.html"))
    assert isinstance(done.exception, BadInput)
    assert str(done.exception).endswith("is a symbolic link of another user; name another file")
    assert target.read_text() == "untouched"


def test_a_new_page_can_be_read_by_whom_the_umask_lets(run: Palctl, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert run("report", "--html", tmp_path / "new.html").exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.html").stat().st_mode) == 0o640
