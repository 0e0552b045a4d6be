"""The ledger keeps every intent from before its edit until nothing is left to watch (P3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pal_slurm.errors import NotLeader, StoreError
from pal_slurm.model import (
    Action,
    Decision,
    Edit,
    EditKind,
    Intent,
    JobRef,
    LeaseAgain,
    NotBegun,
    OperationKind,
    Outcome,
    Pin,
    Placement,
    Plain,
    Reason,
    Renew,
    Request,
    Unpin,
)
from pal_slurm.store import Leadership, Ledger, Store

PLACED = Placement(("n1", "n2"), ((0, 3), (0, 3)), exact=True, partition="gpu")
DECISION = Decision(7, None, Action.START, Reason.BEST_SPAN, PLACED, 0.2, 0.25, 3, PLACED)
PIN = Pin(
    7,
    None,
    ("n1", "n2"),
    (0, 3),
    partition="gpu",
    original=Request(per_node="gres/gpu:2", features="a&b"),
)


def intent(edit: Edit = PIN, submit: int = 100, fence: int = 1, at: float = 200.0) -> Intent:
    return Intent(0, submit, edit, fence, at, decision=DECISION if edit is PIN else None, passes_main=5)


def test_what_is_written_is_read_back_whole(store: Store) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent()])
    whole: dict[str, Any] = {"kind": OperationKind.START, "plan": (EditKind.PIN,), "operation": written.operation}
    assert written == replace(intent(), id=written.id, **whole)
    assert ledger.watched() == [written]
    assert ledger.of_job(7) == [written]


def test_an_intent_is_open_until_its_outcome_and_watched_until_it_is_closed(store: Store) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent()])
    assert ledger.open() == [written]
    ledger.outcome([(written, Outcome.DONE, "as asked")], 201.0)
    assert ledger.open() == []
    [now] = ledger.watched()
    assert (now.outcome, now.said, now.outcome_at) == (Outcome.DONE, "as asked", 201.0)
    ledger.outcome([(written, Outcome.DONE, "")], 202.0, close=True)
    assert ledger.watched() == []


def test_an_unknown_outcome_stays_open_and_may_be_replaced_and_a_known_one_may_not(store: Store) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent()])
    ledger.outcome([(written, Outcome.UNKNOWN, "no answer")], 201.0)
    assert [i.id for i in ledger.open()] == [written.id]
    ledger.outcome([(written, Outcome.DONE, "")], 202.0)
    ledger.outcome([(written, Outcome.REFUSED, "late")], 203.0)
    assert [i.outcome for i in ledger.watched()] == [Outcome.DONE]


def test_many_intents_are_one_transaction_in_their_order(store: Store) -> None:
    ledger = Ledger(store, "c")
    planned = [intent(Renew(job, until=1000 + job)) for job in range(1500)]
    written = ledger.write(planned)
    assert [i.edit.job for i in written] == list(range(1500))
    assert [i.id for i in written] == sorted({i.id for i in written})
    ends = ledger.lease_ends([JobRef(job, 100) for job in range(1500)])
    assert ends == {JobRef(job, 100): 1000 + job for job in range(1500)}


def test_a_leader_that_was_replaced_can_write_nothing(store: Store) -> None:
    leadership, ledger = Leadership(store, "c"), Ledger(store, "c")
    old = leadership.acquire("one", 0.0, 30.0)
    ledger.write([intent(fence=old.fence)])
    new = leadership.acquire("two", 31.0, 30.0, left_s=lambda held: 0.0)
    with pytest.raises(NotLeader, match="two took over"):
        ledger.write([intent(fence=new.fence), intent(fence=old.fence)])
    assert len(ledger.watched()) == 1


def test_undos_are_counted_per_job_and_not_per_id(store: Store) -> None:
    ledger = Ledger(store, "c")
    undo = Unpin(7, until=900)
    ledger.write([intent(undo), intent(undo), intent(undo, submit=50)])
    assert ledger.undos([JobRef(7, 100), JobRef(8, 100)]) == {JobRef(7, 100): 2}
    assert ledger.undos([]) == {}


def test_clusters_that_share_a_database_do_not_see_each_other(store: Store) -> None:
    one, two = Ledger(store, "one"), Ledger(store, "two")
    [written] = one.write([intent()])
    two.outcome([(written, Outcome.GONE, "")], 1.0, close=True)
    assert two.watched() == []
    assert one.watched() == [written]


def test_hostile_words_of_slurmctld_are_stored_as_they_are_and_cut(store: Store) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent()])
    said = "'; DROP TABLE intents; --\x1b[31m\n" + "x" * 100_000
    ledger.outcome([(written, Outcome.REFUSED, said)], 1.0)
    [now] = ledger.watched()
    assert now.said == said[:1000]


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (PIN, OperationKind.START),
        (Plain(7, 3), OperationKind.START),
        (Renew(7, until=900), OperationKind.RENEW),
        (LeaseAgain(7, until=900), OperationKind.LEASE),
        (Unpin(7, None, 900, Request(per_job="gres/gpu:2")), OperationKind.GIVE_BACK),
        (Unpin(7), OperationKind.GIVE_BACK),
    ],
    ids=lambda v: v.kind.value if not isinstance(v, OperationKind) else "",
)
def test_each_edit_is_an_operation_of_one_step_and_read_back_whole(
    store: Store, edit: Edit, kind: OperationKind
) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent(edit)])
    assert (written.kind, written.plan, written.step, written.last) == (kind, (edit.kind,), 0, True)
    assert ledger.watched() == ledger.of_job(7) == [written]
    assert ledger.watched()[0].edit == edit


def test_an_operation_of_several_steps_is_at_the_newest_and_keeps_the_others(store: Store) -> None:
    ledger = Ledger(store, "c")
    plan = (EditKind.UNPIN, EditKind.PIN)
    [first] = ledger.write([replace(intent(Unpin(7, until=900)), kind=OperationKind.MOVE, plan=plan)])
    assert not first.last
    ledger.outcome([(first, Outcome.DONE, "")], 201.0)
    assert [i.id for i in ledger.watched()] == [first.id]  # killed here, the next cycle goes on from it
    go_on: dict[str, Any] = {"operation": first.operation, "kind": first.kind, "plan": plan, "step": 1}
    [second] = ledger.write([replace(intent(), **go_on)])
    assert second.operation == first.operation and second.last
    assert [i.id for i in ledger.watched()] == [second.id] == [i.id for i in ledger.open()]
    assert [i.edit.kind for i in ledger.of_job(7)] == list(plan)
    assert ledger.lease_ends([JobRef(7, 100)]) == {JobRef(7, 100): 900} and ledger.undos([JobRef(7, 100)]) == {
        JobRef(7, 100): 1
    }
    ledger.outcome([(second, Outcome.DONE, "")], 202.0, close=True)
    assert ledger.watched() == [] and all(i.closed for i in ledger.of_job(7))


def test_a_step_is_not_written_twice(store: Store) -> None:
    ledger = Ledger(store, "c")
    [first] = ledger.write([intent()])
    with pytest.raises(StoreError):
        ledger.write([replace(intent(), operation=first.operation, plan=first.plan)])
    assert ledger.watched() == [first]


def test_what_was_begun_before_a_step_of_another_is_in_order(store: Store) -> None:
    ledger = Ledger(store, "c")
    [old, other] = ledger.write([intent(Unpin(7)), intent(Plain(8))])
    assert [i.edit.job for i in ledger.watched()] == [7, 8]
    [later] = ledger.write([replace(intent(), operation=old.operation, step=1)])
    assert [i.id for i in ledger.watched()] == [other.id, later.id]


def test_what_was_not_begun_is_a_row_with_its_reason_and_no_step(store: Store) -> None:
    ledger = Ledger(store, "c")
    refused = NotBegun(7, 100, OperationKind.MOVE, "job 7: not built", 200.0, DECISION)
    ledger.refuse([refused])
    assert ledger.refused(7) == [refused] and ledger.refused(8) == Ledger(store, "other").refused(7) == []
    assert ledger.watched() == ledger.of_job(7) == ledger.newest() == []
