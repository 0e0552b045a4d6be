"""What is done about starts that can't be made: who goes plain, what is given back, who is not pinned again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pal_slurm.daemon.edits import let_go
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.starts import Refused, failed, give_backs, permitted, plain_instead
from pal_slurm.daemon.writer import Wish
from pal_slurm.guard import Rules
from pal_slurm.model import (
    NOT_SENT,
    Action,
    Decision,
    EditKind,
    EditResult,
    JobState,
    Outcome,
    Pin,
    Placement,
    Reason,
    Request,
    Shape,
    Unpin,
)
from tests.builders import NOW, leased, snapshot

MADE = Request(per_node="gres/gpu:2")
JOB = leased(7, request=MADE, shape=Shape(gpus_per_node=2))
PIN = Decision(7, None, Action.PIN, Reason.BEST_SPAN, Placement(("n1",), ((0, 1),), True), 1.0, 1.5)
EDIT = Pin(7, nodes=("n1",), slots=(0, 1), original=MADE)


@pytest.mark.parametrize(
    ("outcome", "said", "bad"),
    [
        (Outcome.DONE, "", False),
        (Outcome.STARTED, "", False),
        (Outcome.UNKNOWN, "", False),
        (Outcome.REFUSED, "Invalid GRES specification", True),
        (Outcome.REFUSED, f"{NOT_SENT}its lease is about to end", False),
        (Outcome.REFUSED, f"{NOT_SENT}somebody edited it since it was looked at", False),
        (Outcome.REFUSED, "Resource temporarily unavailable", False),
        (Outcome.PARTIAL, "tasks are 1, and were 2", True),
    ],
)
def test_only_a_refusal_that_would_come_again_counts(outcome: Outcome, said: str, bad: bool) -> None:
    result = EditResult(EDIT, outcome, said, JOB)
    assert [r for r, _ in failed([result], [Wish(EDIT, JOB.submit, PIN)])] == ([result] if bad else [])


def test_a_refused_pin_becomes_a_plain_start_that_the_guard_lets_pass() -> None:
    (instead,) = plain_instead([PIN])
    assert (instead.action, instead.reason, instead.placement) == (Action.PLAIN, Reason.REFUSED, None)
    wishes, unfit = permitted([instead], snapshot(JOB), Rules(True), {}, CycleReport())
    assert [(w.edit.kind, w.edit.job) for w in wishes] == [(EditKind.PLAIN, 7)] and unfit == []


def test_a_pin_that_the_guard_will_never_let_pass_is_told_apart_from_one_that_is_early() -> None:
    odd = replace(JOB, request=Request(per_node="gres/gpu:2", per_job="gres/gpu:4"))
    assert permitted([PIN], snapshot(odd), Rules(True), {}, CycleReport()) == ([], [PIN])
    ending = replace(JOB, eligible=NOW + 1)
    assert permitted([PIN], snapshot(ending), Rules(True), {}, CycleReport()) == ([], [])


def test_what_came_out_otherwise_than_asked_is_given_back_under_the_records_own_id() -> None:
    task = replace(JOB, id=9, array_id=7, array_task=3, required_nodes="n1")
    partial = EditResult(replace(EDIT, task=3), Outcome.PARTIAL, "", task)
    runs = EditResult(EDIT, Outcome.PARTIAL, "", replace(JOB, state=JobState.RUNNING))
    (wish,) = give_backs([(partial, PIN), (runs, PIN)])
    assert wish.edit == Unpin(9, original=MADE)


def test_a_refused_job_is_remembered_with_all_tasks_of_its_array_until_it_waits_no_more() -> None:
    refused = Refused()
    array = replace(JOB, array_id=7, array_tasks=(1, 2))
    refused.note([PIN], snapshot(array))
    split = replace(JOB, id=9, array_id=7, array_task=1)
    other = replace(JOB, id=8)
    assert refused.ids(snapshot(array, split, other)) == {7, 9}
    assert refused.ids(snapshot(other)) == frozenset()
    assert refused.ids(snapshot(array)) == frozenset()  # a job id that came round again


def test_slots_that_a_user_named_on_a_leased_job_are_left_to_him_when_it_is_let_go() -> None:
    named = replace(JOB, slots=(1,))
    assert let_go(named, NOW).kind is EditKind.PLAIN
    assert let_go(replace(named, required_nodes="n1"), NOW).kind is EditKind.UNPIN  # a pin that was torn
