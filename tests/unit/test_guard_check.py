"""Each thing that the guard refuses, alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.guard import Cause, Permit, Refusal, Rules, check
from pal_slurm.model import (
    Action,
    Decision,
    Hint,
    Job,
    JobState,
    Lease,
    Placement,
    Reason,
    Request,
    Reservation,
    Shape,
    Snapshot,
    Waits,
    homogeneous,
)
from tests.builders import NOW, leased

RULES = Rules(disable_job_shrink=True, margin_s=5)
LEASE = Lease(NOW + 20, Request())
CLUSTER = replace(
    homogeneous(3, 4, cpus=8, mem_mb=1000),
    partitions={"gpu": np.array([True, True, False]), "other": np.array([True, False, True])},
    features=(frozenset({"a100", "rack1"}), frozenset({"a100"}), frozenset({"v100"})),
)
SHAPE = Shape(max_nodes=2, gpus=2, cpus=4, mem_per_node_mb=300)
JOB = leased(until=NOW + 20, partitions=("gpu",), time_limit_s=3600, shape=SHAPE)
ON_ONE = Placement(("n1",), ((0, 2),), True)
ON_TWO = Placement(("n1", "n2"), ((1,), (1,)), True)


def pin(where: Placement | None, job: int = 1, task: int | None = None) -> Decision:
    return Decision(job, task, Action.START, Reason.BEST_SPAN, where)


def look(*jobs: Job, **changes: Any) -> Snapshot:
    return Snapshot(NOW, replace(CLUSTER, **changes), jobs)


def cause(decision: Decision, job: Job = JOB, rules: Rules = RULES, **changes: Any) -> Cause | None:
    (verdict,) = check([decision], look(job, **changes), rules)
    if isinstance(verdict, Permit):
        return None
    assert verdict.said.startswith(f"job {decision.job}: ")
    return verdict.reason


@pytest.mark.parametrize("where", [ON_ONE, ON_TWO, Placement(("n2",), ((0, 1),), False)])
def test_a_sound_pin_gets_its_permit(where: Placement) -> None:
    assert cause(pin(where)) is None


def test_a_job_that_slots_would_cost_something_may_be_pinned_by_its_nodes() -> None:
    per_task = replace(JOB, request=Request(per_task="gres/gpu=1"), shape=Shape(gpus=2, by_slot=False))
    assert cause(pin(Placement(("n2",), ((0, 1),), False)), per_task) is None
    assert cause(pin(ON_ONE), replace(JOB, request=Request(per_node="gres/gpu:g1x:2", per_task="cpu=2"))) is None


def test_a_plain_start_needs_only_that_the_job_is_ours_and_waits() -> None:
    plain = Decision(1, None, Action.PLAIN, Reason.WANTS_OFF)
    assert cause(plain, replace(JOB, hint=Hint(off=True), shape=None)) is None
    assert cause(plain, replace(JOB, lease=None)) is Cause.NO_LEASE


WRONG_JOBS: list[tuple[Cause, dict[str, Any]]] = [
    (Cause.NOT_PENDING, {"state": JobState.RUNNING}),
    (Cause.NO_LEASE, {"lease": None}),
    (Cause.NO_LEASE, {"eligible": NOW}),
    (Cause.LEASE_ENDING, {"eligible": NOW + 5}),
    (Cause.LEASE_ENDING, {"eligible": None, "lease": Lease(NOW + 1, Request())}),
    (Cause.NOT_ELIGIBLE, {"eligible": None, "dependency": "afterok:7"}),
    (Cause.HELD, {"why": Waits.HELD}),
    (Cause.HANDS_OFF, {"hint": Hint(off=True)}),
    (Cause.HANDS_OFF, {"required_nodes": "n1"}),
    (Cause.HANDS_OFF, {"lease": Lease(NOW + 20, Request(), own_nodes=True)}),
    (Cause.HANDS_OFF, {"het": True}),
    (Cause.HANDS_OFF, {"exclusive": True}),
    (Cause.HANDS_OFF, {"reservation": "class"}),
    (Cause.HANDS_OFF, {"shape": None}),
    (Cause.HANDS_OFF, {"request": Request(per_node="gres/gpu:4", per_job="gres/gpu:8")}),
    (Cause.HANDS_OFF, {"request": Request(per_job="gres/gpu:4", per_task="gres/gpu=2")}),
    (Cause.HANDS_OFF, {"request": Request(per_socket="gres/gpu:1")}),
    (Cause.HANDS_OFF, {"request": Request(per_node="gres/gpu:g1:1,gres/gpu:g3:1")}),
    (Cause.HANDS_OFF, {"request": Request(per_job="gres:gpu:g1")}),
    (Cause.NO_SLOTS, {"request": Request(per_task="cpu=2,gres/gpu=1")}),
    (Cause.NO_SLOTS, {"shape": Shape(gpus=2, by_slot=False)}),
    (Cause.SHAPE, {"shape": Shape(gpus=3)}),
    (Cause.SHAPE, {"shape": Shape(min_nodes=2, max_nodes=2, gpus=2)}),
    (Cause.SHAPE, {"shape": Shape(gpus_per_node=1)}),
    (Cause.CPUS, {"shape": Shape(gpus=2, cpus=9)}),
    (Cause.MEMORY, {"shape": Shape(gpus=2, mem_per_node_mb=1001)}),
    (Cause.PARTITION, {"partitions": ("down",)}),
    (Cause.PARTITION, {"partitions": ("gpu", "other")}),
    (Cause.FEATURES, {"features": "v100"}),
    (Cause.FEATURES, {"features": "a100&fast"}),
    (Cause.FEATURES, {"features": "[a100|v100]"}),
    (Cause.FEATURES, {"features": "a100*2"}),
    (Cause.FEATURES, {"features": "a100&rack1|v100"}),
    (Cause.EXCLUDED, {"excluded_nodes": "n[1-2]"}),
    (Cause.EXCLUDED, {"excluded_nodes": "n[1-"}),
]


@pytest.mark.parametrize(("expected", "changes"), WRONG_JOBS)
def test_a_job_that_must_not_be_pinned_there_is_refused(expected: Cause, changes: dict[str, Any]) -> None:
    assert cause(pin(ON_ONE), replace(JOB, **changes)) is expected


WRONG_PLACES: list[tuple[Cause, Placement | None]] = [
    (Cause.NO_PLACEMENT, None),
    (Cause.NO_PLACEMENT, Placement((), (), True)),
    (Cause.NO_PLACEMENT, Placement(("n1", "n2"), ((0,),), True)),
    (Cause.NO_SUCH_NODE, Placement(("n9",), ((0, 1),), True)),
    (Cause.NO_SUCH_GPU, Placement(("n1",), ((3, 4),), True)),
    (Cause.NO_SUCH_GPU, Placement(("n1",), ((-1, 0),), True)),
    (Cause.SHAPE, Placement(("n1",), ((1, 1),), True)),
    (Cause.SHAPE, Placement(("n1", "n1"), ((1,), (2,)), True)),
    (Cause.SHAPE, Placement(("n1", "n2"), ((0, 1), ()), False)),
    (Cause.UNEQUAL_SLOTS, Placement(("n1", "n2"), ((0,), (1,)), True)),
    (Cause.PARTITION, Placement(("n3",), ((0, 1),), True)),
    (Cause.PARTITION, Placement(("n1",), ((0, 1),), True, "other")),
]


@pytest.mark.parametrize(("expected", "where"), WRONG_PLACES)
def test_a_place_that_can_not_be_given_is_refused(expected: Cause, where: Placement | None) -> None:
    assert cause(pin(where)) is expected


def test_every_node_gives_as_many_gpus_as_asked_for() -> None:
    two_each = replace(JOB, shape=Shape(min_nodes=2, max_nodes=2, gpus_per_node=2))
    assert cause(pin(Placement(("n1", "n2"), ((0, 1), (0, 1)), True)), two_each) is None
    assert cause(pin(Placement(("n1", "n2"), ((0, 1), (0, 1, 2)), False)), two_each) is Cause.SHAPE


def test_the_partition_is_named_where_a_job_has_several() -> None:
    both = replace(JOB, partitions=("gpu", "other"))
    assert cause(pin(replace(ON_ONE, partition="other")), both) is None
    assert cause(pin(replace(ON_TWO, partition="other")), both) is Cause.PARTITION


def test_a_drained_node_and_a_busy_gpu_are_refused() -> None:
    assert cause(pin(ON_ONE), node_ok=np.array([False, True, True])) is Cause.NODE_NOT_OK
    busy = np.ones((3, 4), dtype=np.bool_)
    busy[0, 2] = False
    assert cause(pin(ON_ONE), gpu_free=busy) is Cause.GPU_TAKEN


def test_slots_are_refused_where_the_site_or_the_release_has_none() -> None:
    assert cause(pin(ON_ONE), slots=False) is Cause.NO_SLOTS
    assert cause(pin(ON_ONE), rules=replace(RULES, exact_slots=False)) is Cause.NO_SLOTS
    assert cause(pin(ON_ONE), rules=replace(RULES, disable_job_shrink=False)) is Cause.JOB_SHRINK


@pytest.mark.parametrize(
    ("limit", "start", "end", "fine"),
    [
        (3600, NOW - 10, NOW + 10, False),
        (3600, NOW + 3599, NOW + 9999, False),
        (3600, NOW + 3600, NOW + 9999, True),
        (None, NOW + 10**6, NOW + 10**7, False),
        (None, NOW - 99, NOW, True),
    ],
)
def test_a_job_must_be_gone_before_a_reservation_of_its_nodes(
    limit: int | None, start: int, end: int, fine: bool
) -> None:
    job = replace(JOB, time_limit_s=limit)
    window = Reservation("maint", frozenset({"n1"}), start, end, maintenance=True)
    (verdict,) = check([pin(ON_ONE)], replace(look(job), reservations=(window,)), RULES)
    assert isinstance(verdict, Permit) == fine
    assert fine or (isinstance(verdict, Refusal) and verdict.reason is Cause.RESERVATION)


def causes(decisions: list[Decision], jobs: tuple[Job, ...], released: dict[int, Placement]) -> list[Cause | None]:
    verdicts = check(decisions, look(*jobs), RULES, released)
    return [v.reason if isinstance(v, Refusal) else None for v in verdicts]


def test_what_one_start_of_a_batch_takes_is_gone_for_the_next() -> None:
    jobs = tuple(replace(JOB, id=i) for i in (1, 2, 3))
    overlap = Placement(("n1",), ((2, 3),), True)
    rest = Placement(("n1",), ((1, 3),), True)
    assert causes([pin(ON_ONE), pin(overlap, 2), pin(rest, 2)], jobs, {}) == [None, Cause.GPU_TAKEN, None]
    assert causes([pin(ON_ONE), pin(ON_ONE)], jobs, {}) == [None, Cause.TWICE]
    hungry = tuple(replace(job, shape=Shape(gpus=2, cpus=5)) for job in jobs)
    assert causes([pin(ON_ONE), pin(rest, 2)], hungry, {}) == [None, Cause.CPUS]
    big = tuple(replace(job, shape=Shape(gpus=2, mem_per_node_mb=600)) for job in jobs)
    assert causes([pin(ON_ONE), pin(rest, 2)], big, {}) == [None, Cause.MEMORY]


def test_a_pin_that_was_written_earlier_and_has_not_started_counts_as_taken() -> None:
    assert causes([pin(ON_ONE)], (JOB,), {7: Placement(("n1",), ((2, 3),), True)}) == [Cause.GPU_TAKEN]


def test_pins_with_and_without_slots_do_not_race_on_one_node() -> None:
    jobs = (JOB, replace(JOB, id=2))
    loose = Placement(("n1",), ((1, 3),), False)
    assert causes([pin(ON_ONE), pin(loose, 2)], jobs, {}) == [None, Cause.SLOT_RACE]
    assert causes([pin(loose, 2), pin(ON_ONE)], jobs, {}) == [None, Cause.SLOT_RACE]


def test_array_tasks_start_once_each_and_within_the_limit_of_the_array() -> None:
    array = replace(JOB, id=10, array_id=10, array_tasks=(3, 4, 5), array_limit=3)
    running = replace(JOB, id=11, state=JobState.RUNNING, array_id=10, array_task=1)
    places = [Placement((name,), ((0, 1),), True) for name in ("n1", "n2")] + [Placement(("n2",), ((2, 3),), True)]
    decisions = [pin(place, 10, task) for place, task in zip(places, (3, 4, 5), strict=True)]
    snapshot = replace(look(array), running=(running,))
    verdicts = [v.reason if isinstance(v, Refusal) else None for v in check(decisions, snapshot, RULES)]
    assert verdicts == [None, None, Cause.ARRAY_LIMIT]
    assert cause(pin(places[0], 10, 9), array) is Cause.NO_SUCH_TASK
    assert cause(pin(places[0], 10), array) is Cause.NO_SUCH_TASK
    assert cause(pin(ON_ONE, 1, 4)) is Cause.NO_SUCH_TASK
    whole = Decision(10, None, Action.PLAIN, Reason.OVER_SOON)
    for both, wanted in (((whole, decisions[0]), [None, Cause.TWICE]), ((decisions[0], whole), [None, Cause.TWICE])):
        verdicts = [v.reason if isinstance(v, Refusal) else None for v in check(both, snapshot, RULES)]
        assert verdicts == wanted


def test_the_last_task_that_was_let_go_counts_although_it_has_the_arrays_own_record() -> None:
    split = replace(JOB, id=11, array_id=10, array_task=1, array_limit=1)
    last = replace(split, id=10, array_task=None, array_tasks=(5,), eligible=int(NOW) - 1)
    assert causes([pin(ON_ONE, 11, 1)], (split, last), {}) == [Cause.ARRAY_LIMIT]
    assert causes([pin(ON_ONE, 11, 1)], (split, replace(last, why=Waits.HELD)), {}) == [None]


def test_a_job_that_runs_or_is_gone_is_told_apart() -> None:
    running = replace(JOB, id=5, state=JobState.RUNNING)
    decisions = [pin(ON_ONE, 5), pin(ON_ONE, 6), replace(pin(ON_ONE), action=Action.WAIT)]
    verdicts = check(decisions, replace(look(JOB), running=(running,)), RULES)
    reasons = [v.reason for v in verdicts if isinstance(v, Refusal)]
    assert reasons == [Cause.NOT_PENDING, Cause.GONE, Cause.NOT_A_START]
