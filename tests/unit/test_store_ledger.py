"""The ledger keeps every intent from before its edit until nothing is left to watch (P3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pal_slurm.errors import NotLeader
from pal_slurm.model import Action, Decision, Edit, EditKind, Intent, Outcome, Placement, Reason, Request
from pal_slurm.store import Leadership, Ledger, Store

PLACED = Placement(("n1", "n2"), ((0, 3), (0, 3)), exact=True, partition="gpu")
DECISION = Decision(7, None, Action.PIN, Reason.BEST_SPAN, PLACED, 0.2, 0.25, 3, PLACED)
PIN = Edit(
    7,
    EditKind.PIN,
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
    assert written == replace(intent(), id=written.id)
    assert ledger.watched() == [written]
    assert ledger.of_job(7) == [written]


def test_an_intent_is_open_until_its_outcome_and_watched_until_it_is_closed(store: Store) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent()])
    assert ledger.open() == [written]
    ledger.outcome([(written.id, Outcome.DONE, "as asked")], 201.0)
    assert ledger.open() == []
    [now] = ledger.watched()
    assert (now.outcome, now.said, now.outcome_at) == (Outcome.DONE, "as asked", 201.0)
    ledger.close([written.id])
    assert ledger.watched() == []


def test_an_unknown_outcome_stays_open_and_may_be_replaced_and_a_known_one_may_not(store: Store) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent()])
    ledger.outcome([(written.id, Outcome.UNKNOWN, "no answer")], 201.0)
    assert [i.id for i in ledger.open()] == [written.id]
    ledger.outcome([(written.id, Outcome.DONE, "")], 202.0)
    ledger.outcome([(written.id, Outcome.REFUSED, "late")], 203.0)
    assert [i.outcome for i in ledger.watched()] == [Outcome.DONE]


def test_many_intents_are_one_transaction_in_their_order(store: Store) -> None:
    ledger = Ledger(store, "c")
    planned = [intent(Edit(job, EditKind.RENEW, until=1000 + job)) for job in range(1500)]
    written = ledger.write(planned)
    assert [i.edit.job for i in written] == list(range(1500))
    assert [i.id for i in written] == sorted({i.id for i in written})
    ends = ledger.lease_ends([(job, 100) for job in range(1500)])
    assert ends == {(job, 100): 1000 + job for job in range(1500)}


def test_a_leader_that_was_replaced_can_write_nothing(store: Store) -> None:
    leadership, ledger = Leadership(store, "c"), Ledger(store, "c")
    old = leadership.acquire("one", 0.0, 30.0)
    ledger.write([intent(fence=old.fence)])
    new = leadership.acquire("two", 31.0, 30.0)
    with pytest.raises(NotLeader, match="two took over"):
        ledger.write([intent(fence=new.fence), intent(fence=old.fence)])
    assert len(ledger.watched()) == 1


def test_undos_are_counted_per_job_and_not_per_id(store: Store) -> None:
    ledger = Ledger(store, "c")
    undo = Edit(7, EditKind.UNPIN, until=900)
    ledger.write([intent(undo), intent(undo), intent(undo, submit=50)])
    assert ledger.undos([(7, 100), (8, 100)]) == {(7, 100): 2}
    assert ledger.undos([]) == {}


def test_clusters_that_share_a_database_do_not_see_each_other(store: Store) -> None:
    one, two = Ledger(store, "one"), Ledger(store, "two")
    [written] = one.write([intent()])
    two.outcome([(written.id, Outcome.GONE, "")], 1.0, close=True)
    two.close([written.id])
    assert two.watched() == []
    assert one.watched() == [written]


def test_hostile_words_of_slurmctld_are_stored_as_they_are_and_cut(store: Store) -> None:
    ledger = Ledger(store, "c")
    [written] = ledger.write([intent()])
    said = "'; DROP TABLE intents; --\x1b[31m\n" + "x" * 100_000
    ledger.outcome([(written.id, Outcome.REFUSED, said)], 1.0)
    [now] = ledger.watched()
    assert now.said == said[:1000]
