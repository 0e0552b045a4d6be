"""Small jobs leave whole nodes to wide ones where these are usual, and never wait for that."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.usual_wide_jobs import LOADS, waits
from pal_slurm.daemon.observe import Observer
from pal_slurm.model import Action, Cluster, Decision, Job, Knowledge, RunTimes, Shape, WideJobs, homogeneous
from pal_slurm.policy import Circumstances, compose, plan
from pal_slurm.store import OutcomeRepo, Store
from tests.builders import NOW, leased, running, scores, snapshot

CLUSTER = replace(homogeneous(4, 4), slots=True)
WHOLE = Shape(gpus_per_node=4)
DRAW = random.Random(4)
SPREAD = Knowledge(scores(A=[[DRAW.choice((0.9, 0.95, 1.0, 1.0, 1.1, 1.5)) for _ in range(4)] for _ in range(4)]))


def usual(*ago_s: float, nodes: tuple[str, ...] = ("n1",), cluster: Cluster = CLUSTER) -> WideJobs:
    """Wide jobs that ended so long ago."""
    made = WideJobs()
    for before in ago_s:
        made.ended(NOW - before, nodes, 4 * len(nodes), cluster)
    return made


EACH_MINUTE = tuple(range(600, 0, -60))


def array(wide: WideJobs, cluster: Cluster = CLUSTER, many: int = 7, **facts: Any) -> tuple[Decision, ...]:
    """What becomes of tasks of one GPU that run for 20 s."""
    times = RunTimes()
    for _ in range(20):
        times.ended("u", "", "", 600.0, 20.0)
    tasks = tuple(range(1, many + 1))
    job = leased(1, 1, array_id=1, array_tasks=tasks, time_limit_s=600, **facts)
    seen = snapshot(job, cluster=cluster)
    return plan(seen, SPREAD, compose("pal"), Circumstances(run_times=times, wide=wide)).decisions


def nodes(decisions: Iterable[Decision]) -> set[str]:
    return {name for d in decisions if d.placement is not None for name in d.placement.nodes}


@pytest.mark.parametrize(
    ("wide", "many", "broken"),
    [
        (usual(), 7, 4),
        (usual(60), 7, 4),  # one is not usual
        (usual(4000, 60), 7, 4),
        (usual(*EACH_MINUTE), 7, 3),
        (usual(*range(86_400 + 100, 86_400, -1)), 7, 4),  # many at once, a day ago
        (usual(*EACH_MINUTE), 4, 3),
        (usual(*EACH_MINUTE, nodes=("n1", "n2")), 4, 2),  # each on two nodes
    ],
)
def test_tasks_leave_nodes_whole_for_wide_jobs_that_are_usual(wide: WideJobs, many: int, broken: int) -> None:
    decisions = array(wide, many=many)
    assert [d.action for d in decisions] == [Action.START] * many
    assert len(nodes(decisions)) == broken
    assert all(d.step_time <= 1.0 for d in decisions if d.step_time is not None)


def test_nobody_waits_for_a_wide_job_that_may_come() -> None:
    """Where only that node has room, small jobs get it; one that is slower everywhere else gets it too."""
    free = np.array([[True] * 4, *[[False] * 4] * 3])
    full = replace(CLUSTER, gpu_free=free)
    decisions = array(usual(*EACH_MINUTE), full)
    assert [d.action for d in decisions if d.placement] == [Action.START] * 4
    free = np.array([[True] * 4, *[[False, False, False, True]] * 3])
    slow = Knowledge(scores(A=[[1.0] * 4, *[[1.0, 1.0, 1.0, 1.3]] * 3]))
    seen = snapshot(leased(1, 1, time_limit_s=600), cluster=replace(CLUSTER, gpu_free=free))
    facts = Circumstances(wide=usual(*EACH_MINUTE))
    assert nodes(plan(seen, slow, compose("pal"), facts).decisions) == {"n1"}


def test_wide_jobs_of_other_nodes_change_nothing() -> None:
    """Those of another partition."""
    halves = {"one": np.array([True, True, False, False]), "two": np.array([False, False, True, True])}
    apart = replace(CLUSTER, partitions=halves)
    for partition, changes in (("one", True), ("two", False)):
        plans = (array(wide, apart, partitions=(partition,)) for wide in (usual(*EACH_MINUTE, cluster=apart), usual()))
        one, other = (sorted((d.task, d.placement) for d in made) for made in plans)
        assert (one != other) is changes


@pytest.mark.parametrize(
    ("held", "shape", "counts"),
    [
        ({"n1": (0, 1, 2, 3)}, WHOLE, True),
        ({"n1": (0, 1, 2, 3), "n2": (0, 1, 2, 3)}, replace(WHOLE, min_nodes=2, max_nodes=2), True),
        ({"n1": (0, 1, 2)}, Shape(gpus_per_node=3), False),
        ({"n1": (0, 1, 2, 3)}, Shape(gpus=4, max_nodes=4), False),  # it could have been split
        ({"gone": (0, 1, 2, 3)}, WHOLE, False),
    ],
)
def test_pald_learns_which_jobs_needed_whole_nodes(
    store: Store, held: dict[str, tuple[int, ...]], shape: Shape, counts: bool
) -> None:
    observer = Observer(OutcomeRepo(store, "c"))
    job: Job = replace(running(7, held), shape=shape, start=int(NOW) - 50, name="x")
    for now, jobs in ((NOW, (job,)), (NOW + 9, ())):
        observer.record_changes(replace(snapshot(*jobs, cluster=CLUSTER), taken=now), SPREAD, {})
    assert [wide.nodes for wide in observer.wide.lately()] == [tuple(held)] * counts
    anew = Observer(OutcomeRepo(store, "c"))  # another pald has read it up; what jobs asked for is not written down
    anew.record_changes(replace(snapshot(cluster=CLUSTER), taken=NOW + 20), SPREAD, {})
    whole = all(name in CLUSTER.node_index and len(slots) == 4 for name, slots in held.items())
    assert [wide.nodes for wide in anew.wide.lately()] == [tuple(held)] * whole


def test_simulated_wide_jobs_wait_less_where_they_are_usual_and_small_jobs_pay_little() -> None:
    often, once = LOADS["seven at once, a wide job each minute"], LOADS["seven at once, one wide job"]
    seeds = range(4)
    small, wide = np.mean([waits(often, "pal", seed) for seed in seeds], axis=0)
    small_before, wide_before = np.mean([waits(often, "pal", seed, 0.0) for seed in seeds], axis=0)
    assert wide < 0.7 * wide_before
    assert small < 1.01 * small_before
    assert [waits(once, "pal", seed) for seed in (0, 1)] == [waits(once, "pal", seed, 0.0) for seed in (0, 1)]
