"""What distance costs an application, from the paces of its jobs."""

from __future__ import annotations

import json
from math import log, sqrt
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.learning.distance import apart
from pal_slurm.store import open_store
from pal_slurm.store.learned import AppFeatures, LearnedRepo
from pal_slurm.store.tables import Baseline


def test_jobs_of_one_shape_on_one_node_and_on_several_tell_what_distance_costs() -> None:
    base = {
        "a100|4|1": Baseline(log(0.2), 0.01, 3), "a100|4|2": Baseline(log(0.3), 0.01, 2),
        "a100|8|2": Baseline(log(9.0), 0.01, 2), "v100|4|2": Baseline(log(9.0), 0.01, 2),
    }  # fmt: skip
    found = apart(base)
    assert found is not None and found.factor == pytest.approx(1.5) and found.jobs == 5
    assert found.doubt == pytest.approx(sqrt(0.02))
    sure = {**base, "v100|4|1": Baseline(log(3.0), 100.0, 1)}  # 3.0, and nobody is sure of it
    assert apart(sure) is not None and apart(sure).factor == pytest.approx(1.5, rel=1e-3)  # type: ignore[union-attr]


def test_without_a_pair_nothing_is_told() -> None:
    assert apart({}) is None and apart({"a100|4|2": Baseline(0.0, 0.1, 1), "odd": Baseline(0.0, 0.1, 1)}) is None


def test_palctl_apps_comm_says_what_counts_who_says_so_and_what_jobs_show(tmp_path: Path) -> None:
    pal = tmp_path / "pal.yaml"
    pal.write_text(
        f"state_dir: {tmp_path}\napps:\n  bert: {{class: A, comm: {{node: 1.0, rack: 1.1, cluster: 1.4}}}}\n"
    )

    def run(*words: str) -> str:
        done = CliRunner().invoke(palctl, ["--config", str(pal), *words])
        assert done.exit_code == 0, done.output
        return done.output

    run("db", "upgrade")
    base = {"a100|4|1": Baseline(log(0.2), 0.01, 3), "a100|4|2": Baseline(log(0.3), 0.01, 2)}
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    LearnedRepo(store).set_features([AppFeatures("lm", 1.0, 5, base=base)])
    store.close()
    rows = {row["app"]: row for row in json.loads(run("apps", "list", "--json"))}
    assert (rows["bert"]["cluster"], rows["bert"]["comm_source"], rows["bert"]["apart"]) == (1.4, "pal.yaml", None)
    assert (rows["lm"]["cluster"], rows["lm"]["comm_source"], rows["lm"]["apart"]) == (1.0, "none", 1.5)
    shown = run("apps", "--comm").splitlines()
    heads = ["APP", "NODE", "UNLINKED", "RACK", "CLUSTER", "COMM_SOURCE", "APART", "APART_DOUBT", "APART_JOBS"]
    assert shown[0].split() == heads
    assert "1.5" in shown[2] and "none" in shown[2]
