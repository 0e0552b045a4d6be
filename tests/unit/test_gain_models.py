"""palctl gain on several GPU models: who may have which, and what placement by prices would have saved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.model import App, Apps, neutral_scores
from pal_slurm.sim.accounted import cluster_of, works_of
from pal_slurm.sim.accounted_rates import with_rates
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

    def gain(*words: str) -> dict[str, Any]:
        told = ["--config", f"{tmp_path}/pal.yaml", "gain", "--sacct", str(sacct(tmp_path / "sacct.txt"))]
        said = CliRunner().invoke(palctl, [*told, "--repeat", "2", "--json", *words])
        assert said.exit_code == 0, said.output
        found: dict[str, Any] = json.loads(said.stdout)
        return found

    assert CliRunner().invoke(palctl, ["--config", f"{tmp_path}/pal.yaml", "db", "upgrade"]).exit_code == 0
    blind, told = gain(), gain("--models", "old=n1,new=n2")
    assert not any("GPU models" in line for line in blind["assumptions"])
    assert any("24 of 24 jobs run an application" in line for line in told["assumptions"])
    ((one,), (other,)) = told["saved"], blind["saved"]
    assert one["saved_gpu_hours"]["mean"] > 0.3 > other["saved_gpu_hours"]["mean"]


def unnamed(path: Path, names: tuple[str, str] = ("train", "prep")) -> Path:
    """Nobody has said what his jobs are; the names of the scripts tell: four times as fast on n2, and hardly."""
    at = "2026-10-01T{:02}:{:02}:00".format
    rows = ["JobID|JobName|Submit|Start|End|AllocTRES|NodeList|Partition|User|Comment|Timelimit|ReqTRES|Constraints"]
    for i in range(40):
        name, second = names[i % 2], i % 2
        new = (i % 8 < 2) != second  # mostly on the wrong model
        minutes = (11, 44)[not new] if not second else (20, 22)[not new]
        start, end = at(i // 2, 0), at(i // 2, minutes)
        rows.append(
            f"{i}|{name}|{start}|{start}|{end}|gres/gpu=1|{'n2' if new else 'n1'}|gpu|ann||01:00:00|gres/gpu=1|"
        )
    path.write_text("\n".join(rows) + "\n")
    return path


def test_before_anything_is_installed_run_times_of_jobs_of_one_name_tell_what_models_are_to_them(
    tmp_path: Path,
) -> None:
    def gain(file: Path) -> dict[str, Any]:
        words = ["gain", "--sacct", str(file), "--models", "old=n1,new=n2"]
        said = CliRunner().invoke(palctl, [*words, "--repeat", "2", "--json"])
        assert said.exit_code == 0, said.output
        found: dict[str, Any] = json.loads(said.stdout)
        return found

    shown = gain(unnamed(tmp_path / "sacct.txt"))
    assert any("Of those, 40 by run times" in line for line in shown["assumptions"])
    assert all(one["saved_gpu_hours"]["mean"] > 0.2 for one in shown["saved"])
    assert "Placement would have saved" in str(shown["verdict"]) and "GPU models alone" in str(shown["verdict"])
    once = (tmp_path / "sacct.txt").read_text().splitlines()
    once = [line.replace("|train|", f"|train{i}|").replace("|prep|", f"|prep{i}|") for i, line in enumerate(once)]
    (tmp_path / "once.txt").write_text("\n".join(once) + "\n")
    blind = gain(tmp_path / "once.txt")
    assert any("0 of 40 jobs run" in line for line in blind["assumptions"])
    assert "Nothing can be said" in str(blind["verdict"])


def test_a_pair_of_models_that_a_users_runs_do_not_tell_of_leaves_them_where_they_ran(tmp_path: Path) -> None:
    rows = [ran(None, node, s) for node, s in (("n1", 400.0), ("n2", 100.0)) for _ in range(3)]
    rows = [replace(row, title="train") for row in rows] + [replace(ran(None, "n3", 50.0), title="other")]
    cluster = cluster_of(rows, 2, {**MODELS, "n3": "newest"})
    told, apps = with_rates(rows, cluster, Apps({}))
    assert [row.app for row in told] == [None] * 7 and not apps.own
    told, apps = with_rates(rows[:6], cluster_of(rows[:6], 2, MODELS), Apps({}))
    base = apps.get("train", "ann").base
    assert [row.app for row in told] == ["train"] * 6 and 2.5 < base["old"] / base["new"] < 4.0
    assert apps.get("train", "bob").base == {}


def test_models_that_are_not_told_rightly_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\n")
    for wrong in ("old", "old=", "=n1", "old=n[1-", "old=n1,n2"):
        words = ["--config", f"{tmp_path}/pal.yaml", "gain", "--sacct", str(sacct(tmp_path / "sacct.txt"))]
        said = CliRunner().invoke(palctl, [*words, "--models", wrong])
        assert said.exit_code != 0 and "MODEL=NODES" in str(said.exception), wrong


def test_simulating_ones_accounting_on_several_models_says_that_it_knows_no_speeds(tmp_path: Path) -> None:
    words = ["simulate", str(sacct(tmp_path / "sacct.txt")), "--policy", "pal", "--cluster"]
    said = [CliRunner().invoke(palctl, [*words, cluster]).output for cluster in ("old:1x2+new:1x2", "2x2")]
    assert ["all models count alike" in " ".join(text.split()) for text in said] == [True, False]
