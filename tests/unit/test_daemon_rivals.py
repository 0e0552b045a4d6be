"""Jobs that start without our leave: whom they count against, and what the head of the queue gets for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.rivals import Rivals, watched
from pal_slurm.model import (
    Action,
    Cluster,
    Job,
    Knowledge,
    Lease,
    Reason,
    Request,
    Shape,
    Snapshot,
    Waits,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import Circumstances, compose, plan
from pal_slurm.policy.memory import NO_MEMORY
from pal_slurm.slurm.records import JobRecord, to_job
from tests.builders import leased, running, snapshot, waiting

NOW = 1000.0
CLUSTER = replace(
    homogeneous(4, 4),
    partitions={"gpu": np.array([True, True, False, False]), "other": np.array([False, False, True, True])},
)
WIDE = Shape(2, 2, gpus_per_node=4)
HEAD = leased(5, until=1100, submit=900, partitions=("gpu",), priority=10, shape=WIDE)
BEHIND: dict[str, Any] = {"submit": 950, "user": "v", "partitions": ("gpu",), "priority": 9, "eligible": 950}
RIVAL = waiting(9, why=Waits.ROOM, **BEHIND)
RUNS = running(9, {"n1": (0,)}, start=1001, **BEHIND)


def watching() -> Rivals:
    """One that has looked before."""
    rivals = Rivals(Entries())
    rivals.take_in(replace(view(), taken=NOW - 60), frozenset())
    return rivals


def about(*others: Job, since: float = NOW, ours: tuple[Job, ...] = (), lapsed: tuple[int, ...] = ()) -> bool:
    rivals = watching()
    for job in ours:
        rivals.entries[job.key].started = True
    rivals.take_in(view(*others), frozenset(lapsed))
    return rivals.about(HEAD, since, CLUSTER)


def view(*others: Job, cluster: Cluster = CLUSTER) -> Snapshot:
    return snapshot(HEAD, *others, cluster=cluster, now=NOW)


def test_one_that_waits_for_slurm_behind_it_or_has_started_since_is_a_rival() -> None:
    assert about(RIVAL)
    assert about(RUNS)
    assert not about()


@pytest.mark.parametrize(
    "facts",
    [
        {"start": 999},  # it ran already
        {"priority": 11},  # it comes first in Slurm's own order
        {"nodes": ("n3",)},
        {"reservation": "mine"},
        {"gpu_job": False},  # it leaves enough CPUs
    ],
)
def test_these_that_run_are_not(facts: dict[str, Any]) -> None:
    assert not about(replace(RUNS, **facts))


@pytest.mark.parametrize(
    "facts",
    [
        {"lease": Lease(1100, Request()), "eligible": 1100},  # it waits for us as well
        {"eligible": 1100},
        {"why": Waits.LIMIT},
        {"why": Waits.HELD},
        {"partitions": ("other",)},
        {"gpu_job": False},
        {"priority": 11},
        {"shape": Shape(2, 2, gpus_per_node=4)},  # as large: it may take its turn once, and then it has started
    ],
)
def test_these_that_wait_are_not(facts: dict[str, Any]) -> None:
    assert not about(replace(RIVAL, **facts))


def test_what_we_let_go_ourselves_or_lease_again_is_no_rival() -> None:
    assert not about(RIVAL, ours=(RIVAL,))
    assert not about(RUNS, ours=(RUNS,))
    task = replace(RUNS, id=12, array_id=9, array_task=3)
    assert not about(task, ours=(RIVAL,))
    assert not about(RIVAL, lapsed=(9,))


def test_a_job_without_gpus_is_a_rival_where_it_leaves_gpus_without_cpus() -> None:
    rivals = watching()
    cpu_job = replace(RUNS, gpu_job=False, gpus=())
    starved = replace(CLUSTER, cpus_free=np.array([3, 64, 64, 64]))
    rivals.take_in(view(cpu_job, cluster=starved), frozenset())
    assert rivals.about(HEAD, NOW, starved)


def test_a_head_beside_rivals_goes_plain_long_before_its_planned_start() -> None:
    rivals, memory = watching(), NO_MEMORY
    full = replace(CLUSTER, gpu_free=np.zeros((4, 4), dtype=np.bool_))
    busy = running(2, dict.fromkeys(("n1", "n2"), (0, 1, 2, 3)), 87_400, submit=0)

    def decided(seen: Snapshot) -> list[tuple[Action, Reason]]:
        nonlocal memory
        rivals.take_in(seen, frozenset())
        beside = Circumstances(rivals=watched(rivals, full))
        made = plan(seen, Knowledge(neutral_scores(full)), compose("pal"), beside, memory)
        memory = made.memory
        return [(d.action, d.reason) for d in made.decisions]

    alone = view(busy, cluster=full)
    assert decided(alone) == [(Action.WAIT, Reason.NO_ROOM)]
    assert decided(view(busy, RUNS, cluster=full)) == [(Action.PLAIN, Reason.OVERTAKEN)]
    far = replace(HEAD, lease=Lease(99_000, Request()), eligible=99_000)
    late = replace(alone, taken=NOW + 86_400 + 61, pending=(far,))
    assert decided(late) == [(Action.PLAIN, Reason.PAST_PLANNED_START)]


def test_what_ran_before_pald_looked_is_nobodys_rival() -> None:
    rivals = Rivals(Entries())
    rivals.take_in(replace(view(RUNS), taken=1002.0), frozenset())
    assert not rivals.about(HEAD, 0.0, CLUSTER)


def test_of_many_rivals_one_is_enough_and_asking_is_cheap() -> None:
    many = [replace(RUNS, id=100 + n, start=1001 + n % 7, priority=9 - n % 9, nodes=("n3",)) for n in range(500)]
    assert not about(*many)
    assert about(*many, RUNS)
    assert not about(*many, RUNS, since=1001)
    assert about(*many, replace(RUNS, start=1002), since=1001)


def test_a_job_whose_launch_has_failed_and_that_is_held_is_nobodys_rival() -> None:
    """It may sit there for weeks; its reason is a sentence of its own."""
    record = JobRecord(9, 950, "PENDING", "v", eligible=950, partition="gpu", per_node="gres/gpu:1")
    assert about(to_job(msgspec.structs.replace(record, priority=9, reason="Priority")))
    assert not about(to_job(msgspec.structs.replace(record, priority=0, reason="launch failed requeued held")))
