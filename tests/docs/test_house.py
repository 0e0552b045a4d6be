"""CONTRIBUTING's table of rooms and the contract that holds the arrows say the same."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import settings

from tests.docs.pages import PROJECT

ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", re.MULTILINE)


def floors_of_the_page() -> list[set[str]]:
    rows = ROW.findall((PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    return [{room for _, room, _ in floor} for _, floor in groupby(rows, key=lambda row: int(row[0]))]


def floors_of_the_contract() -> list[set[str]]:
    tools = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    [contract] = [c for c in tools["importlinter"]["contracts"] if c["type"] == "layers"]
    assert contract["exhaustive"] and contract["containers"] == ["pal_slurm"]
    return [set(floor.split(" | ")) for floor in contract["layers"]]


def test_the_table_of_rooms_is_the_contract() -> None:
    assert floors_of_the_page() == floors_of_the_contract()


def test_every_room_is_in_the_table() -> None:
    package = PROJECT / "pal_slurm"
    rooms = {path.stem for path in package.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py"}
    assert set().union(*floors_of_the_page()) == rooms - {"__init__"}


def test_the_way_of_a_job_names_twenty_files_at_most_once_each_and_they_exist() -> None:
    page = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    way = page.partition("## The way of a job")[2].partition("\n## ")[0]
    files = [name for _, name, _ in re.findall(r"^\| (\d+) \| `([\w/.]+)` \| (.+) \|$", way, re.MULTILINE)]
    assert 10 < len(files) <= 20 and len(set(files)) == len(files)
    assert [name for name in files if not any((PROJECT / room / name).exists() for room in ("pal_slurm", ""))] == []


def test_ci_and_a_new_clone_run_the_same_examples(request: pytest.FixtureRequest) -> None:
    nightly = request.config.getoption("markexpr") == "slow or not slow"
    drawn = settings.get_current_profile_name(), settings.default is not None and settings.default.derandomize
    assert drawn == (("new", False) if nightly else ("same", True))


@pytest.mark.parametrize(
    ("words", "setup", "given"),
    [
        ("", "", "not slow -n N"),
        ("--slow --cov", "--packages", "slow or not slow -n N --cov"),
        ("--fast", "--python-only", "not slow -n N tests/unit tests/docs tests/property tests/conformance"),
        ("tests/unit", "--python-only", "not slow -n 0 tests/unit"),
        ("tests/unit/a.py::test_x -k lease", "--python-only", "not slow -n 0 tests/unit/a.py::test_x -k lease"),
        ("tests/unit --fast", "--python-only", "not slow -n 0 tests/unit"),
        ("-x tests/unit --slow -n 3", "--python-only", "slow or not slow -n 0 -x tests/unit -n 3"),
        ("tests/unit tests/slurm", "", "not slow -n 0 tests/unit tests/slurm"),
        ("--fast tests/slurm", "--python-only", "not slow -n 0 tests/slurm"),
        ("--help", None, ""),
        ("tests/unit -h", None, ""),
    ],
)
def test_scripts_test_sets_up_what_its_words_need(tmp_path: Path, words: str, setup: str | None, given: str) -> None:
    for folder in ("scripts", "tests/slurm", "tests/unit", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/unit/a.py").touch()
    shutil.copy(PROJECT / "scripts" / "test", tmp_path / "scripts")
    for name in ("scripts/setup", ".venv/bin/python"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name}|$*"\n')
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([tmp_path / "scripts/test", *words.split()], capture_output=True, text=True, check=True)
    if setup is None:
        assert "--fast" in done.stdout and "scripts/setup|" not in done.stdout
        return
    said = re.sub(r" --cov-report=\S+| --durations=15", "", re.sub(r"-n [1-9]\d* --dur", "-n N --dur", done.stdout))
    assert said.splitlines() == [f"scripts/setup|{setup}", f".venv/bin/python|-m pytest -m {given}"]


PROGRAMS = sorted(path for path in (PROJECT / "benchmarks").rglob("*.py") if "__main__" in path.read_text())


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_benchmark_starts_as_a_file_and_as_a_module(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
    for run, name in ((runpy.run_path, str(path)), (runpy.run_module, module)):
        monkeypatch.delitem(sys.modules, module, raising=False)  # another benchmark has imported it
        monkeypatch.setattr(sys, "argv", [path.name, "--help"])
        with pytest.raises(SystemExit) as done:
            run(name, run_name="__main__")
        assert done.value.code in (0, None) and capsys.readouterr().out.lower().startswith("usage: ")


def test_benchmarks_import_each_other_by_their_whole_names() -> None:
    """A bare name is found where a file is started, and not as a module."""
    names = "|".join(path.stem for path in (PROJECT / "benchmarks").rglob("*.py"))
    bare = re.compile(rf"^\s*(?:from|import) (?:{names})\b", re.MULTILINE)
    assert [str(path) for path in (PROJECT / "benchmarks").rglob("*.py") if bare.search(path.read_text())] == []
