"""There is one EASY: who decides jobs, over nodes or by counts alone, asks the same reservations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pal_slurm
from benchmarks.published.policies import PublishedSpec, scheduler_for
from pal_slurm.model import App, homogeneous
from pal_slurm.scores import binned
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.policies import Setting
from pal_slurm.sim.workload import Work, workload

PACKAGE = Path(pal_slurm.__file__).parent
DECIDE = ("policy", "daemon", "guard", "sim")
# Slurm's own reservations and backfill, which SimSlurm models, are no decision of ours.
SLURMS = "sim/slurm"
KEPT = re.compile(r"easy|reserv|earliest|backfill", re.IGNORECASE)
OURS = {
    "policy/easy.py": {"Easy", "Reserved", "reserve"},
    "policy/horizon.py": {"earliest", "earliest_odd"},  # when there is room, by time limits
    "policy/walk.py": {"reserve"},  # asks it, and tells the walk
    "policy/seams.py": {"reserves"},  # whether a fill rule wants any
    "guard/constraints.py": {"check_reservations"},  # an admin's
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for room in DECIDE:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith(SLURMS):
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def callers(*called: str) -> set[str]:
    return {
        name
        for name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in called
    }


def test_nothing_else_in_the_deciding_rooms_is_named_like_a_reservation() -> None:
    named: dict[str, set[str]] = {}
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and KEPT.search(node.name):
                named.setdefault(name, set()).add(node.name)
    assert named == OURS


def test_one_place_makes_reservations_and_one_asks_when_there_will_be_room() -> None:
    assert callers("Easy") == {"policy/walk.py"}
    assert callers("earliest", "earliest_odd") == {"policy/easy.py"}
    assert callers("Walk") == {"policy/planner.py"}


@pytest.mark.parametrize("policy", ["artifact/packed-sticky", "artifact/pal", "reassign"])
def test_who_counts_gpus_lets_a_head_wait_for_ever_no_more_than_who_names_them(policy: str) -> None:
    """Nobody has a limit, and a small job comes before the last one has ended: a gap for four never comes by itself."""
    app, cluster = App("a", "A", {}, (1.0, 1.0, 1.0, 1.0)), homogeneous(1, 4)
    small = [Work(i, 50.0 * i, 1, 100.0, app) for i in range(40)]
    load = workload([*small, Work(99, 60.0, 4, 100.0, app)])
    table = binned(("A",), np.ones((1, 1, 4)))
    starts = {}
    for moves in (True, False):
        spec = PublishedSpec(policy=policy if moves else "packed", order="fifo", fill="easy", moves=moves)
        outcome = Engine(
            cluster, table, load, scheduler_for(spec, Setting(cluster, 1.0, ClusterRules(), True), table, 0)
        ).run()
        starts[moves] = dict(zip(outcome.job_ids.tolist(), outcome.start_s.tolist(), strict=True))[99]
    assert starts[True] == starts[False] == 150.0
