"""Limits of users, accounts and QOS: who runs into one keeps no free GPU from others, and is tried again in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pal_slurm.daemon.limits_met import AGAIN_S, LimitsMet
from pal_slurm.daemon.reconcile import Fate, Transition
from pal_slurm.model import Action, Intent, Job, Knowledge, Pin, Plain, Snapshot, Waits, neutral_scores
from pal_slurm.policy import compose, plan
from tests.builders import NODE, NOW, leased, running, snapshot, waiting

ALICE: dict[str, Any] = {"user": "alice", "account": "lab", "qos": "normal", "partitions": ("gpu",)}
RUNS = running(1, {"n1": (0,)}, **ALICE)


def fate(job: Job, what: Fate, *, pin: bool = True) -> Transition:
    edit = Pin(job.id, None, ("n1",)) if pin else Plain(job.id)
    return Transition(Intent(1, job.submit, edit, 1, NOW), what, job)


MET = fate(waiting(2, why=Waits.THEIR_LIMIT, **ALICE), Fate.UNDO)


def queue(*jobs: Job, ran: tuple[Job, ...] = (RUNS,), now: float = NOW) -> Snapshot:
    return snapshot(*ran, *(jobs or (leased(3, **ALICE), leased(4, **ALICE), leased(5, **ALICE))), now=now)


def free(view: Snapshot) -> list[int]:
    return [job.id for job in view.pending if not job.limited]


def test_who_shares_the_limit_waits_and_nobody_else() -> None:
    others = [leased(n, **(ALICE | o)) for n, o in ((6, {"user": "bob"}), (7, {"account": "x"}), (8, {"qos": "y"}))]
    view = LimitsMet().kept(queue(leased(3, **ALICE), *others, waiting(9, **ALICE)), [MET])
    assert [job.limited for job in view.pending] == [True, False, False, False, False]
    assert view.pending[0].why is Waits.THEIR_LIMIT  # what its lease hides
    made = plan(view, Knowledge(neutral_scores(NODE)), compose("pal", patience="none"))
    assert [d.job for d in made.starts] == [6, 7, 8]
    assert [d.action for d in made.decisions if d.job == 3] == [Action.WAIT]


@pytest.mark.parametrize("why", [Waits.LIMIT, Waits.ROOM, Waits.HELD])
def test_other_reasons_tell_of_no_limit(why: Waits) -> None:
    assert free(LimitsMet().kept(queue(), [fate(waiting(2, why=why, **ALICE), Fate.UNDO)])) == [3, 4, 5]
    assert free(
        LimitsMet().kept(queue(), [fate(waiting(2, why=Waits.THEIR_LIMIT, **ALICE), Fate.UNDO, pin=False)])
    ) == [3, 4, 5]


def test_one_is_tried_when_a_job_that_counts_has_ended_or_after_a_while() -> None:
    limits = LimitsMet()
    assert free(limits.kept(queue(), [MET])) == []
    assert free(limits.kept(queue(now=NOW + AGAIN_S - 1.0), [])) == []
    late = [leased(n, until=NOW + 100, **ALICE) for n in (3, 4, 5)]
    assert free(limits.kept(queue(*late, now=NOW + AGAIN_S), [])) == [3]
    moves = LimitsMet()
    moves.kept(queue(), [MET])
    assert free(moves.kept(queue(ran=()), [], {RUNS.id})) == []  # it is requeued, and runs again soon
    ended = LimitsMet()
    ended.kept(queue(), [MET])
    assert free(ended.kept(queue(ran=()), [])) == [3]
    strangers = LimitsMet()
    strangers.kept(queue(ran=(RUNS, running(8, {"n1": (1,)}, user="bob", account="x", qos="y"))), [MET])
    assert free(strangers.kept(queue(), [])) == []


def test_as_long_as_they_start_twice_as_many_are_tried_and_never_before_the_last_have() -> None:
    limits = LimitsMet()
    limits.kept(queue(), [MET])
    assert free(limits.kept(queue(ran=()), [])) == [3]
    assert free(limits.kept(queue(ran=()), [fate(waiting(3, **ALICE), Fate.WAITING)])) == []
    assert free(limits.kept(queue(ran=()), [fate(running(3, {"n1": (0,)}, **ALICE), Fate.STARTED)])) == [3, 4]
    assert free(limits.kept(queue(ran=()), [MET])) == []


def test_of_an_array_no_more_tasks_start_than_may_be_tried() -> None:
    tasks = leased(3, array_id=3, array_tasks=(1, 2, 3, 4), **ALICE)
    limits = LimitsMet()
    limits.kept(queue(tasks), [MET])
    view = limits.kept(queue(tasks, leased(9, **ALICE), ran=()), [])
    assert [(job.limited, job.array_limit) for job in view.pending] == [(False, 1), (True, None)]
    narrow = replace(tasks, array_limit=1)
    runs = running(7, {"n1": (0,)}, array_id=3, array_task=0, **ALICE)
    (kept,) = limits.kept(queue(narrow, ran=(runs,)), []).pending
    assert kept.array_limit == 1


def test_it_is_forgotten_once_none_of_them_waits_for_us() -> None:
    limits = LimitsMet()
    limits.kept(queue(), [MET])
    limits.kept(queue(leased(6, user="bob")), [])
    assert free(limits.kept(queue(), [])) == [3, 4, 5]


def test_who_asks_for_fewer_gpus_may_have_them() -> None:
    big, small = leased(3, 4, **ALICE), leased(4, 1, **ALICE)
    met = fate(waiting(2, 4, why=Waits.THEIR_LIMIT, **ALICE), Fate.UNDO)
    limits = LimitsMet()
    assert free(limits.kept(queue(big, small), [met])) == [4]
    assert free(limits.kept(queue(big, small), [MET])) == []
    assert free(limits.kept(queue(big, small), [met])) == []
