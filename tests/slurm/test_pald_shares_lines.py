"""Jobs that are put beside another on its GPU get, CPUs to environment of steps, what they get without pald (P2)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pal_slurm.store import DecisionRepo, open_store
from tests.slurm.pald import Pald, lua_settings, plain
from tests.slurm.shapes.parts import ONE_NODE, beside_others, differs, rows_of_parts
from tests.slurm.shapes.run import cluster_for, run_all

SETTINGS = {
    "sharing.enabled": True,
    "sharing.pairs": [{"app": "sweep", "beside": "sweep", "factor": 1.25, "back": 1.25}],
    "apps": {"sweep": {"class": "A", "base": {"gpu": 1.0}}},
}


def put_beside(pald: Pald) -> set[int]:
    """Jobs that were put on another's GPU."""
    store = open_store(f"sqlite:///{pald.database}")
    try:
        made = DecisionRepo(store, pald.cluster_name).newest(10_000)
    finally:
        store.close()
    return {why.decision.job for why in made if why.decision.together is not None}


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_whatever_a_line_says_it_gets_the_same_on_a_gpu_that_another_has_too(release: str, open_home: Path) -> None:
    rows = rows_of_parts(release)
    cluster = cluster_for(rows, f"t{os.getpid()}-lines-{release}", release, ONE_NODE)
    try:
        lua_settings(cluster, shards="pald")
        with plain(cluster):
            alone = run_all(cluster, rows, open_home / "alone", ONE_NODE)
        with Pald(cluster, open_home / "pald", SETTINGS) as pald:
            pald.start()
            beside = beside_others(cluster, rows, open_home / "beside", pald)
            shared = put_beside(pald)
    finally:
        cluster.down()
    wrong = []
    for row in rows:
        one, two = alone[row.name], beside[row.name]
        placed = "beside" if shared & set(two.jobs) else "alone"
        said = differs(row, one, two, shared=placed == "beside")
        wrong += [f"{row.name}: {word}" for word in (*said, *[placed] * (placed != row.placed))]
    assert wrong == [], "\n".join(wrong)
