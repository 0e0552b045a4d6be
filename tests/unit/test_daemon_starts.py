"""What is done about starts that can't be made: who goes plain, what is given back, who is not pinned again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pal_slurm.daemon.edits import let_go
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.round import Round, Wish
from pal_slurm.daemon.starts import Starts, failed, give_backs, permitted, plain_instead
from pal_slurm.guard import Cause, MoveRules, Rules
from pal_slurm.model import (
    NO_CONSENT,
    NOT_SENT,
    Action,
    Consent,
    Decision,
    EditKind,
    EditResult,
    Given,
    Hint,
    Job,
    JobState,
    Outcome,
    Pin,
    Placement,
    Reason,
    Request,
    Shape,
    Unpin,
)
from pal_slurm.slurm.port import Passes
from tests.builders import NOW, leased, snapshot

MADE = Request(per_node="gres/gpu:2")
JOB = leased(7, request=MADE, shape=Shape(gpus_per_node=2))
PIN = Decision(7, None, Action.START, Reason.BEST_SPAN, Placement(("n1",), ((0, 1),), True), 1.0, 1.5)
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
    (wish,) = give_backs([(partial, PIN), (runs, PIN)], NOW)
    assert isinstance(partial.edit, Pin)
    assert wish.edit == Unpin(9, original=MADE, nodes=partial.edit.nodes)


def test_a_refused_job_is_remembered_with_all_tasks_of_its_array_until_it_waits_no_more() -> None:
    array = replace(JOB, array_id=7, array_tasks=(1, 2))
    split = replace(JOB, id=9, array_id=7, array_task=1)
    other = replace(JOB, id=8)
    told: list[Decision] = []
    starts = Starts(Entries(), Rules(True), lambda decisions, _: told.extend(decisions))
    starts.instead([EditResult(EDIT, Outcome.REFUSED, "no", array)], [Wish(EDIT, array.submit, PIN)], going(array))
    assert [(d.job, d.action, d.reason) for d in told] == [(7, Action.PLAIN, Reason.REFUSED)]
    assert starts.refused(snapshot(array, split, other)) == {7, 9}
    starts.entries.keep(snapshot(other))
    assert starts.refused(snapshot(array)) == frozenset()  # a job id that came round again


MOVING = Rules(True, moves=MoveRules())
RUNNING = replace(
    JOB,
    state=JobState.RUNNING,
    priority=7,
    start=int(NOW) - 1000,
    end=int(NOW) + 1000,
    requeue=True,
    nodes=("n1",),
    gpus=((0, 1),),
    consent=Consent(Given.ASKED),
)


@pytest.mark.parametrize(
    ("action", "facts", "cause", "said"),
    [
        (Action.MOVE, {"consent": NO_CONSENT}, Cause.NO_CONSENT, "job 7: nobody said that it may be moved"),
        (Action.STOP, {"batch": 0}, Cause.NO_CONSENT, "job 7: it is of srun or salloc: nothing could start it again"),
        (Action.MOVE, {"lease": None}, Cause.HANDS_OFF, "job 7: it bears no mark of ours"),
        (Action.MOVE, {"hint": Hint(off=True)}, Cause.HANDS_OFF, "job 7: its user wrote pal:off"),
        (Action.MOVE, {"requeue": False}, Cause.NO_CONSENT, "job 7: it can't be requeued"),
        (Action.MOVE, {"start": int(NOW) - 10}, Cause.TOO_EARLY, "job 7: it has only just started"),
        (Action.STOP, {"end": int(NOW) + 10}, Cause.TOO_LATE, "job 7: it is about to end"),
        (
            Action.MOVE,
            {"end": int(NOW) + 1000, "consent": Consent(Given.ASKED, signal="USR1", ahead_s=600)},
            Cause.TOO_LATE,
            "job 7: it is about to end",
        ),
        (
            Action.MOVE,
            {"priority": 0},
            Cause.HANDS_OFF,
            "job 7: somebody holds it: once requeued it would wait for ever",
        ),
    ],
)
def test_what_needs_a_running_job_is_refused_with_its_reason_and_told_once(
    action: Action, facts: dict[str, Any], cause: Cause, said: str
) -> None:
    starts, at = Starts(Entries(), MOVING, lambda decisions, _: None), going(replace(RUNNING, **facts))
    decision = replace(PIN, action=action)
    passed, ((refused, told),) = starts.of_running([decision], at)
    assert passed == []
    assert (refused.kind.value, refused.said, refused.decision) == (action.value, said, decision)
    assert at.report.refusals == {cause: 1}
    assert starts.of_running([decision], at) == ([], [(refused, told)])  # until it is on disk
    told.remember()
    assert starts.of_running([decision], at) == ([], [])


def test_of_a_job_that_runs_no_more_there_is_nothing_to_tell() -> None:
    starts, at = Starts(Entries(), Rules(True), lambda decisions, _: None), going(JOB)
    assert starts.of_running([replace(PIN, action=Action.MOVE)], at) == ([], [])
    assert at.report.refusals == {Cause.NOT_RUNNING: 1}


def going(*jobs: Job) -> Round:
    round = Round(CycleReport(), 1, 0.0, Passes(0, 0, 0, 0, 0), snapshot(*jobs, now=NOW))
    round.view = round.snapshot
    return round


def test_slots_that_a_user_named_on_a_leased_job_are_left_to_him_when_it_is_let_go() -> None:
    named = replace(JOB, slots=(1,))
    assert let_go(named, NOW).kind is EditKind.PLAIN
    assert let_go(replace(named, required_nodes="n1"), NOW).kind is EditKind.UNPIN  # a pin that was torn
