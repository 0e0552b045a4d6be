"""Operations of several steps, moves and memory, through pald's own cycle beside SimSlurm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.daemon import cycle as cycle_module
from pal_slurm.guard import Cause
from pal_slurm.model import Action, Decision, EditKind, Intent, OperationKind, Outcome, Reason, Unpin
from pal_slurm.policy.memory import NO_MEMORY
from pal_slurm.policy.plan import Plan
from tests.simpald import House


def meaning_to(action: Action, job: int) -> Callable[..., Plan]:
    """The planner as it is, which wants that as well."""
    planner = cycle_module.plan  # type: ignore[attr-defined]

    def wants(*given: object, **more: object) -> Plan:
        made = planner(*given, **more)  # type: ignore[arg-type]
        return replace(made, decisions=(*made.decisions, Decision(job, None, action, Reason.BEST_SPAN)))

    return wants


@pytest.mark.parametrize(
    ("action", "said"), [(Action.MOVE, "moving running jobs"), (Action.STOP, "stopping running jobs")]
)
def test_a_plan_that_moves_or_stops_a_job_leads_to_a_row_with_the_reason_and_to_no_edit(
    house: House, monkeypatch: pytest.MonkeyPatch, action: Action, said: str
) -> None:
    job = house.submit("--gres=gpu:1", "--requeue", runs=7200)
    house.live(400)
    assert house.state(job) == "RUNNING"
    monkeypatch.setattr(cycle_module, "plan", meaning_to(action, job))
    edits, rows = len(house.journal), len(house.intents())
    beside = house.submit("--gres=gpu:1")
    for _ in range(3):
        report = house.pald.cycle()
        assert (report.end, report.refusals) == ("ok", {Cause.NOT_BUILT: 1})
    [refused] = house.pald.pald.cycle.books.ledger.refused(job)
    assert refused.kind is OperationKind(action.value)
    assert refused.said == f"job {job}: {said} is not built yet"
    assert refused.decision is not None and refused.decision.action is action
    assert {i.edit.job for i in house.intents()[rows:]} == {beside}
    assert all(u.target == str(beside) for u in house.journal[edits:])
    assert house.state(job) == "RUNNING"


def test_a_job_that_runs_for_a_moment_only_is_not_even_asked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job = house.submit("--gres=gpu:1", "--requeue")
    house.live(5)
    monkeypatch.setattr(cycle_module, "plan", meaning_to(Action.MOVE, job))
    assert house.pald.cycle().refusals == {Cause.TOO_EARLY: 1}


def test_an_operation_that_a_dead_pald_left_between_two_steps_ends_with_its_job_as_slurm_has_it(house: House) -> None:
    """Its next step is none that this pald can make: the job is Slurm's, and the operation is over."""
    job = house.submit("--gres=gpu:1")
    ledger, record = house.pald.pald.cycle.books.ledger, house.job(job).job()
    begun = Intent(
        0, record.submit, Unpin(job, until=int(house.now) + 30), 1, house.now, Outcome.DONE,
        kind=OperationKind.MOVE, plan=(EditKind.UNPIN, EditKind.REQUEUE),
    )  # fmt: skip
    ledger.write([begun])
    house.restart()
    house.live(60)
    assert house.state(job) == "RUNNING" and house.pins(job) == []
    assert [i.closed for i in house.intents(job)] == [True] * len(house.intents(job))


def test_what_patience_remembers_is_there_for_the_next_pald(house: House) -> None:
    for _ in range(4):
        house.submit("--gres=gpu:4", "--exclusive", runs=3600)
    head = house.submit("--gres=gpu:4")
    house.live(30)
    before = house.pald.pald.cycle.books.memory.of(1)
    [key] = [key for key in before.heads if key[0] == head]
    house.restart()
    house.live(5)
    memory = house.pald.pald.cycle.books.memory
    after = memory.of(memory._fence or 0)
    assert after is not NO_MEMORY and after.begun == before.begun and after.heads[key] == before.heads[key]
