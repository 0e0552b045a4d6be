"""Lines on a cluster of two GPU models, with moves and what jobs are owed: each gets what it gets without pald (P2)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.slurm.pald import Pald
from tests.slurm.shapes.compare import judge
from tests.slurm.shapes.models import TWO_MODELS, rows_of_models
from tests.slurm.shapes.run import cluster_for, run_all
from tests.slurm.test_pald_moves import MOVES

SETTINGS = MOVES | {
    "cluster.models": ["v100", "a100"],
    "apps": {"fast": {"class": "A", "base": {"v100": 0.4, "a100": 0.2}}},
    "policy.entitlement": "gavel/max-min",
}


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_with_two_models_moves_and_shares_that_are_owed_each_line_gets_what_it_gets_without_pald(
    release: str, open_home: Path
) -> None:
    rows = rows_of_models(release)
    cluster = cluster_for(rows, f"t{os.getpid()}-models-{release}", release, TWO_MODELS)
    try:
        alone = run_all(cluster, rows, open_home / "alone", TWO_MODELS)
        with Pald(cluster, open_home / "pald", SETTINGS) as pald:
            pald.start()
            beside = run_all(cluster, rows, open_home / "beside", TWO_MODELS)
            made = {row.name: [i for job in beside[row.name].jobs for i in pald.intents(job)] for row in rows}
    finally:
        cluster.down()
    verdicts = [judge(row, release, "", alone[row.name], beside[row.name], made[row.name]) for row in rows]
    assert {verdict.line: verdict.differs for verdict in verdicts if verdict.differs} == {}
    assert sum(verdict.placed == "slots" for verdict in verdicts) >= 10
