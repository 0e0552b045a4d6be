"""palctl's commands of profiles: ingest, outliers, bins, apps, alerts, and profile run where it can't."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import load
from pal_slurm.errors import BadInput
from pal_slurm.learning.classes import learn_classes
from pal_slurm.store import open_store
from pal_slurm.store.samples import JobSample, SampleRepo
from tests.unit.spools import document, fleet, put

Palctl = Callable[..., Result]
HOUR = 3600.0


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir()
    return path


@pytest.fixture
def run(tmp_path: Path, spool: Path) -> Palctl:
    path = tmp_path / "pal.yaml"
    path.write_text(f"state_dir: {tmp_path}\nprofile: {{spool: {spool}}}\napps:\n  mine: {{class: C}}\n")

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(palctl, ["--config", str(path), *words])

    assert invoke("db", "upgrade").exit_code == 0
    return invoke


@pytest.fixture
def profiled(run: Palctl, spool: Path) -> Palctl:
    truth = fleet(4, slow={("n2", 1): 1.6})
    for node in ("n1", "n2", "n3", "n4"):
        put(spool, document(node, truth, time.time() - HOUR))
    done = run("ingest")
    assert done.exit_code == 0, done.output
    assert "4 taken; 80 runs" in done.output
    assert "16 scores were made anew, of 1 nights" in done.output
    return run


def rows(done: Result) -> list[dict[str, object]]:
    assert done.exit_code == 0, done.output
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_outliers_come_with_the_evidence(profiled: Palctl) -> None:
    (found,) = rows(profiled("scores", "--outliers", "--json"))
    assert (found["node"], found["slot"], found["class"], found["nights"], found["runs"]) == ("n2", 1, "A", 1, 5)
    low, score = found["ci_low"], found["score"]
    assert isinstance(low, float)
    assert isinstance(score, float)
    assert 1.5 < low < score < 1.7


def test_each_kind_of_bins_holds_every_gpu_once(profiled: Palctl) -> None:
    for by in ("placement", "published", "intervals"):
        found = rows(profiled("scores", "--bins", "--by", by, "--class", "A", "--json"))
        assert sum(int(str(row["gpus"])) for row in found) == 16
        assert found[-1]["where"] == "n2:g1"


def test_recompute_tells_what_it_did(profiled: Palctl) -> None:
    assert "16 scores made anew from the runs of 1 nights" in profiled("scores", "recompute").output


def test_what_is_set_aside_is_told_and_the_exit_code_says_so(run: Palctl, spool: Path) -> None:
    (spool / "bad\x1b[31m.json").write_text("{}")
    os.utime(spool / "bad\x1b[31m.json", (1, 1))
    done = run("ingest")
    assert done.exit_code == 65
    assert "set aside: format: is missing" in done.output
    assert "\x1b" not in done.output
    again = run("ingest", "--json")
    assert json.loads(again.stdout)["files"] == []


def test_ingest_without_a_spool_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "pal.yaml"
    path.write_text(f"state_dir: {tmp_path}\n")
    done = CliRunner().invoke(palctl, ["--config", str(path), "ingest"])
    assert isinstance(done.exception, BadInput)
    assert "profile.spool" in str(done.exception)
    run_ = CliRunner().invoke(palctl, ["--config", str(path), "profile", "run"])
    assert isinstance(run_.exception, BadInput)
    assert "a directory that nodes share" in str(run_.exception)


def test_apps_show_what_they_use_their_class_and_how_sure(run: Palctl, tmp_path: Path) -> None:
    store, now = open_store(f"sqlite:///{tmp_path}/pal.sqlite"), time.time()
    uses = {"mine": (0.9, 0.2), "vgg": (0.85, 0.25), "bert": (0.5, 0.5), "gpt": (0.55, 0.5), "rank": (0.2, 0.8)}
    samples = [
        JobSample(f"{app}{i}", "", f"{n}{i}", app, "n1", ("G",), now - HOUR, now - 60, 0, None, *use)
        for n, (app, use) in enumerate(uses.items())
        for i in range(3)
    ]
    SampleRepo(store).add(samples)
    learn_classes(store, load(tmp_path / "pal.yaml"), now)
    store.close()
    found = {row["app"]: row for row in rows(run("apps", "list", "--json"))}
    told = {app: (row["class"], row["source"], row["jobs"]) for app, row in found.items()}
    assert told == {
        "mine": ("C", "pal.yaml", 3), "vgg": ("A", "measured", 3), "bert": ("B", "measured", 3),
        "gpt": ("B", "measured", 3), "rank": ("C", "measured", 3),
    }  # fmt: skip
    assert all(isinstance(row["sure"], float) and row["sure"] > 0.8 for row in found.values())
    assert "COMPUTE" in run("apps").output


def test_alerts_are_listed(run: Palctl, spool: Path) -> None:
    assert "no alerts" in run("alerts").output
    truth = fleet(2)
    now = time.time()
    for day in range(3):
        hot = {place: slowness * (1.2 if day == 2 else 1.0) for place, slowness in truth.items()}
        for node in ("n1", "n2"):
            put(spool, document(node, hot, now - (2 - day) * 86_400 - HOUR, seed=day))
    run("ingest")
    (alert,) = rows(run("alerts", "--json"))
    assert alert["kind"] == "shift"
    assert "slower than in the nights before" in str(alert["said"])


def test_a_window_that_can_not_be_read_is_refused(run: Palctl) -> None:
    done = run("profile", "run", "--window", "1 to 5")
    assert isinstance(done.exception, BadInput)


def test_run_times_from_a_file_are_nights_like_any_other(run: Palctl, tmp_path: Path) -> None:
    lines = ["node,slot,uuid,model,class,seconds"]
    for i, slowness in enumerate((1.0, 1.01, 0.99, 1.5, 1.0, 1.02, 0.98, 1.0)):
        times = " ".join(f"{0.2 * slowness * (1 + 0.001 * n):.5f}" for n in range(5))
        lines.append(f"n{i // 4},{i % 4},GPU-{i}-x,a100,A,{times}")
    (tmp_path / "night.csv").write_text("\n".join(lines) + "\n")
    assert run("scores", "import", str(tmp_path / "night.csv")).exit_code == 0
    before = {str(row["uuid"]): row["A"] for row in rows(run("scores", "--json"))}
    assert "8 scores made anew" in run("scores", "recompute").output
    after = {str(row["uuid"]): row["A"] for row in rows(run("scores", "--json"))}
    assert after == pytest.approx(before, rel=0.01)
