"""palctl gain on several GPU models: who may have which, and what placement by prices would have saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.model import App, Apps, neutral_scores
from pal_slurm.sim.accounted import cluster_of, works_of
from pal_slurm.sim.traces.sacct import Ran

NEAR = (1.0, 1.0, 1.0, 1.0)
FUSSY = App("fussy", "A", {"old": 0.4, "new": 0.1})
MODELS = {"n1": "old", "n2": "new"}


def ran(app: str | None, node: str, seconds: float, asked: str = "") -> Ran:
    return Ran("1", 0.0, 10.0, 10.0 + seconds, 1, node, "ann", app, 3600.0, 2, asked)


def test_a_jobs_work_is_its_run_time_over_what_its_model_made_of_it() -> None:
    rans = [ran("fussy", "n1", 400.0), ran("fussy", "n2", 400.0)]
    cluster = cluster_of(rans, 2, MODELS)
    assert cluster.models == ("new", "old") and cluster.gpu_model.tolist() == [[1, 1], [0, 0]]
    load = works_of(rans, cluster, neutral_scores(cluster), Apps({"fussy": FUSSY}), NEAR)
    assert [work.steps for work in load.works] == pytest.approx([1000.0, 4000.0])
    assert [work.as_job().types for work in load.works] == [(), ()]


@pytest.mark.parametrize(
    ("app", "asked"),
    [
        (None, ""),
        ("unknown", ""),
        ("fussy", "cpu=4,gres/gpu:old=1"),
        ("fussy", "cpu=4,old|new"),
        ("fussy", "rack1&old"),
    ],
)
def test_who_asked_for_a_model_or_is_not_known_keeps_the_one_on_which_it_ran(app: str | None, asked: str) -> None:
    rans = [ran(app, "n1", 400.0, asked), ran("fussy", "n2", 1.0)]
    cluster = cluster_of(rans, 2, MODELS)
    load = works_of(rans, cluster, neutral_scores(cluster), Apps({"fussy": FUSSY}), NEAR)
    assert load.works[0].as_job().types == ("old",) and load.works[0].steps == 400.0


@pytest.mark.parametrize("models", [{}, {"n1": "old"}, {"n1": "old", "n2": "old"}])
def test_without_the_models_of_all_nodes_all_count_alike(models: dict[str, str]) -> None:
    assert cluster_of([ran(None, "n[1-2]", 5.0)], 2, models).models == ("gpu",)


def sacct(path: Path) -> Path:
    """An hour of jobs that Slurm put wherever there was room: those that hardly mind on the new GPUs."""
    head = "JobID|Submit|Start|End|AllocTRES|NodeList|Partition|User|Comment|Timelimit"
    at = "2026-10-01T{:02}:{:02}:00".format
    rows = [head]
    for i in range(24):
        app, node, minutes = ("easy", "n2", 20) if i % 2 else ("fussy", "n1", 40)
        start = at(i // 2, 0)
        end = at(i // 2, minutes)
        rows.append(f"{i + 1}|{start}|{start}|{end}|gres/gpu=1|{node}|gpu|u{i % 3}|app:{app}|01:00:00")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_palctl_gain_tells_what_models_would_have_saved(tmp_path: Path) -> None:
    (tmp_path / "pal.yaml").write_text(
        f"state_dir: {tmp_path}\ncluster: {{models: [old, new]}}\napps:\n"
        "  fussy: {class: A, base: {old: 0.4, new: 0.1}}\n  easy: {class: A, base: {old: 0.11, new: 0.1}}\n"
    )

    def gain(*words: str) -> dict[str, object]:
        told = ["--config", f"{tmp_path}/pal.yaml", "gain", "--sacct", str(sacct(tmp_path / "sacct.txt"))]
        said = CliRunner().invoke(palctl, [*told, "--repeat", "2", "--json", *words])
        assert said.exit_code == 0, said.output
        found: dict[str, object] = json.loads(said.stdout)
        return found

    assert CliRunner().invoke(palctl, ["--config", f"{tmp_path}/pal.yaml", "db", "upgrade"]).exit_code == 0
    blind, told = gain(), gain("--models", "old=n1,new=n2")
    assert not any("GPU models" in line for line in blind["assumptions"])  # type: ignore[attr-defined]
    assert any("24 of 24 jobs run an application" in line for line in told["assumptions"])  # type: ignore[attr-defined]
    assert told["saved_gpu_hours"]["mean"] > 0.3 > blind["saved_gpu_hours"]["mean"]  # type: ignore[index]


def test_models_that_are_not_told_rightly_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\n")
    for wrong in ("old", "old=", "=n1", "old=n[1-", "old=n1,n2"):
        words = ["--config", f"{tmp_path}/pal.yaml", "gain", "--sacct", str(sacct(tmp_path / "sacct.txt"))]
        said = CliRunner().invoke(palctl, [*words, "--models", wrong])
        assert said.exit_code != 0 and "MODEL=NODES" in str(said.exception), wrong
