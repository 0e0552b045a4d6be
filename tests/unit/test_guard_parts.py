"""Each thing that the guard refuses of two jobs on one GPU, alone; and when the GPU is free again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.guard import Cause, Permit, Rules, check
from pal_slurm.model import (
    Action,
    Decision,
    Hint,
    Job,
    JobState,
    Knowledge,
    Lease,
    Placement,
    Reason,
    Request,
    Shape,
    Snapshot,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.horizon import Horizon
from tests.builders import NOW, leased

RULES = Rules(disable_job_shrink=True, parts=True)
LEASE = Lease(NOW + 20, Request(per_node="gres/gpu:1"), asked_to_share=True)
SHAPE = Shape(gpus_per_node=1, cpus=4, mem_per_node_mb=300)
SHARER: dict[str, Any] = {"lease": LEASE, "shape": SHAPE, "by_part": True, "hint": Hint("net", share=True)}
GUEST = leased(until=NOW + 20, **{**SHARER, "user": "ann"})
HOST = Job(
    2, JobState.RUNNING, NOW - 100, "ann", nodes=("n1",), gpus=((),), parts=((2,),), shard=True, cpus_alloc=4,
    end=NOW + 900, **SHARER,
)  # fmt: skip
THERE = Placement(("n1",), ((2,),), True, shard=True)
TWO = np.full((2, 4), 2)
CLUSTER = replace(
    homogeneous(2, 4, cpus=8, mem_mb=1000),
    slots=True,
    parts=TWO,
    parts_free=np.array([[2, 2, 1, 2], [2, 2, 2, 2]]),
    gpu_free=np.array([[True, True, False, True], [True] * 4]),
    cpus_free=np.array([4, 8]),
)


def cause(
    job: Job = GUEST, *running: Job, where: Placement = THERE, rules: Rules = RULES, taken: Placement | None = None,
    **cluster: Any,
) -> Cause | None:  # fmt: skip
    found = Snapshot(NOW, replace(CLUSTER, **cluster), (job,), running or (HOST,))
    decision = Decision(1, None, Action.START, Reason.SHARES, where)
    (verdict,) = check([decision], found, rules, {} if taken is None else {9: taken})
    return None if isinstance(verdict, Permit) else verdict.reason


def test_one_may_have_the_other_part_of_its_owners_gpu_and_the_first_part_of_a_free_one() -> None:
    assert cause() is None
    assert cause(where=replace(THERE, gpus=((3,),))) is None


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        (Cause.HANDS_OFF, {"hint": Hint("net")}),
        (Cause.HANDS_OFF, {"hint": Hint("net", share=True, off=True)}),
        (Cause.HANDS_OFF, {"lease": replace(LEASE, asked_to_share=False)}),
        (Cause.HANDS_OFF, {"by_part": False}),
        (Cause.HANDS_OFF, {"array_limit": 4}),
        (Cause.HANDS_OFF, {"exclusive": True}),
        (Cause.NOT_ALIKE, {"user": "bob"}),
        (Cause.NOT_ALIKE, {"account": "physics"}),
        (Cause.CPUS, {"shape": replace(SHAPE, cpus=5)}),
        (Cause.MEMORY, {"shape": replace(SHAPE, mem_per_node_mb=1001)}),
        (Cause.EXCLUDED, {"excluded_nodes": "n1"}),
    ],
)
def test_who_may_not_be_put_beside_another(why: Cause, changes: dict[str, Any]) -> None:
    assert cause(replace(GUEST, **changes)) is why


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "bob"}, {"account": "physics"}, {"hint": Hint("net")}, {"shard": False}, {"completing": True},
        {"suspended": True}, {"lease": replace(LEASE, asked_to_share=False)},
    ],
)  # fmt: skip
def test_beside_whom_nobody_is_put(changes: dict[str, Any]) -> None:
    assert cause(GUEST, replace(HOST, **changes)) is Cause.NOT_ALIKE


def test_an_account_counts_where_slurm_holds_users_to_theirs() -> None:
    guest, host = (replace(job, account="lab", user=user) for job, user in ((GUEST, "ann"), (HOST, "bob")))
    assert cause(guest, host) is None
    typed = replace(RULES, accounts=False)
    assert cause(guest, host, rules=typed) is Cause.NOT_ALIKE
    assert cause(guest, replace(host, user="ann"), rules=typed) is None
    nobody, nobodys = (replace(job, account="", user="") for job in (GUEST, HOST))
    assert cause(nobody, nobodys) is Cause.NOT_ALIKE  # whose they are is not known
    nobody, nobodys = (replace(job, account="lab", user="") for job in (GUEST, HOST))
    assert cause(nobody, nobodys, rules=typed) is Cause.NOT_ALIKE  # and anybody can call his account so
    assert cause(guest, replace(host, user="ann", account=""), rules=typed) is Cause.NOT_ALIKE


def test_there_are_two_at_most_whatever_slurm_would_give() -> None:
    third = replace(HOST, id=3)
    three = np.full((2, 4), 3)
    assert cause(GUEST, HOST, third, parts=three) is Cause.NO_ROOM_BESIDE
    assert cause(GUEST, HOST, third) is Cause.NO_ROOM_BESIDE  # whatever Slurm counts
    assert cause(GUEST, HOST, parts_free=np.zeros((2, 4))) is Cause.NO_ROOM_BESIDE  # of whom no job is known
    assert cause(taken=THERE) is Cause.GPU_TAKEN  # another is about to
    assert cause(where=replace(THERE, gpus=((3,),)), taken=replace(THERE, gpus=((3,),))) is Cause.GPU_TAKEN


def test_a_whole_gpu_is_no_place_for_a_second_and_a_shared_one_none_for_a_whole_job() -> None:
    whole = replace(HOST, parts=(), gpus=((2,),), shard=False)
    assert cause(GUEST, whole, parts_free=np.array([[2, 2, 0, 2], [2] * 4])) is Cause.NO_ROOM_BESIDE
    assert cause(where=replace(THERE, shard=False)) is Cause.GPU_TAKEN


def test_where_no_gpu_is_shared() -> None:
    assert cause(rules=replace(RULES, parts=False)) is Cause.NO_PARTS
    assert cause(parts=None) is Cause.NO_PARTS
    assert cause(parts=np.ones((2, 4))) is Cause.NO_PARTS
    assert cause(slots=False) is Cause.NO_SLOTS
    assert cause(where=replace(THERE, exact=False)) is Cause.SHAPE
    assert cause(where=Placement(("n1",), ((7,),), True, shard=True)) is Cause.NO_PARTS


def test_a_gpu_is_free_when_the_last_of_both_has_ended() -> None:
    knowledge = Knowledge(neutral_scores(CLUSTER, ("A",)))
    for ends in ((NOW + 900.0, NOW + 300.0), (NOW + 300.0, NOW + 900.0)):
        horizon = Horizon(Floor(CLUSTER, knowledge, now=NOW))
        horizon.begin(NOW)
        horizon.occupy(2, HOST, Placement(("n1",), ((2,),), False), ends[0])
        horizon.occupy(1, GUEST, THERE, ends[1])
        assert horizon.times()[0, 2] == NOW + 900.0
