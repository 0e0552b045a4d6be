"""Whose a begin time is, and what follows: no earlier start, no renewal, no undo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pal_slurm.daemon.edits import let_go
from pal_slurm.daemon.entries import Entries, Whose
from pal_slurm.daemon.leases import begins
from pal_slurm.daemon.leases.begins import LONGEST_LEASE_S, beyond_a_lease
from pal_slurm.daemon.leases.keeping import LeaseRules, renewals
from pal_slurm.daemon.past import Past
from pal_slurm.daemon.reconcile import Fate, judge
from pal_slurm.guard import Refusal, Rules, check
from pal_slurm.model import (
    Action,
    Decision,
    Intent,
    Job,
    Lease,
    Outcome,
    Pin,
    Plain,
    Reason,
    Renew,
    Request,
    Waits,
    until,
)
from pal_slurm.policy.turn import Turn, turn_of
from pal_slurm.store import Ledger, Store
from tests.builders import leased, snapshot
from tests.unit.test_daemon_reconcile import view

BEGUN = 900.0  # the ledger
NOW = 1000.0
MARK = Lease(990, Request())


def job(number: int = 7, **more: Any) -> Job:
    facts: dict[str, Any] = {"submit": 950, "lease": MARK, "eligible": 1100}
    return leased(number, **(facts | more))


def told(store: Store, *jobs: Job, watch: Entries | None = None, now: float = NOW) -> list[Job]:
    ledger = Ledger(store, "c")
    return list(begins.told(snapshot(*jobs, now=now), watch or Entries(BEGUN), ledger).pending)


def own(made: Job) -> int | None:
    return made.lease.not_before if made.lease else None


def test_what_neither_lua_nor_we_wrote_is_the_users(store: Store) -> None:
    written = Renew(8, until=1100)
    Ledger(store, "c").write([Intent(0, 950, written, 1, 960.0, outcome=Outcome.DONE)])
    by_lua = job(9, lease=Lease(1100, Request()))
    theirs, ours, luas = told(store, job(), job(8), by_lua)
    assert (own(theirs), own(ours), own(luas)) == (1100, None, None)


@pytest.mark.parametrize(
    ("facts", "is_theirs"),
    [
        ({"submit": 850}, False),  # older than the ledger, and within a lease: a ledger that was lost may know it
        ({"submit": 850, "eligible": int(NOW) + LONGEST_LEASE_S + 1}, True),
        ({"restarts": 1, "eligible": 950 + 121}, False),  # Slurm's own begin time after a requeue
        ({"restarts": 1, "eligible": 950 + 400}, True),
        ({"eligible": 995}, False),  # "now"
        ({"eligible": None}, False),
    ],
)
def test_in_doubt_it_is_ours(store: Store, facts: dict[str, Any], is_theirs: bool) -> None:
    (made,) = told(store, job(**facts))
    assert made.lease is not None and made.lease.moved is is_theirs


def test_without_a_ledger_only_what_no_lease_ever_has_is_the_users() -> None:
    near, far = job(eligible=int(NOW) + 600), job(8, eligible=int(NOW) + 601)
    made = beyond_a_lease(snapshot(near, far, now=NOW)).pending
    assert [own(found) for found in made] == [None, NOW + 601]


def test_nobody_starts_it_sooner_nor_renews_it_nor_lets_it_go(store: Store) -> None:
    (made,) = told(store, job())
    assert turn_of(made, NOW) == (Turn.LATER, Reason.NOT_ELIGIBLE)
    start = Decision(made.id, None, Action.PLAIN, Reason.CANT_PIN)
    (verdict,) = check([start], snapshot(made, now=NOW), Rules(True, True, 3.0))
    assert isinstance(verdict, Refusal)
    assert renewals([(0, made)], {}, LeaseRules(), 1099.0, 15.0) == []
    assert not made.waits_for_us(NOW)


def test_once_it_has_come_the_mark_counts_again(store: Store) -> None:
    watch = Entries(BEGUN)
    told(store, job(), watch=watch)
    (made,) = told(store, job(), watch=watch, now=1101.0)
    assert made.lease == MARK and watch[made.key].whose is Whose.THEIRS


def test_the_marks_own_begin_time_is_renewed_shortly_before_it_comes_and_given_back() -> None:
    marked = job(lease=Lease(1100, Request(), not_before=1100))
    assert not marked.waits_for_us(NOW)
    (edit,) = renewals([(0, marked)], {}, LeaseRules(), 1090.0, 15.0)
    assert edit.until is not None and edit.until > 1100
    renewed = replace(marked, eligible=edit.until)
    assert turn_of(renewed, 1095.0)[0] is Turn.LATER and turn_of(renewed, 1100.0)[0] is not Turn.LATER
    assert renewed.waits_for_us(1095.0)
    assert let_go(renewed, 1095.0) == Renew(7, until=1100)
    assert let_go(renewed, 1101.0) == Plain(7)


def test_a_pin_whose_job_is_to_begin_later_is_taken_back() -> None:
    lease = replace(MARK, not_before=1100, moved=True)
    pinned = job(required_nodes="n1", slots=(1,), lease=lease, why=Waits.BEGIN)
    edit = Pin(7, nodes=("n1",), slots=(1,))
    intent = Intent(1, 950, edit, fence=1, written_at=NOW - 5, outcome=Outcome.DONE)
    assert judge(intent, view(pinned)).fate is Fate.UNDO


def test_a_begin_time_far_ahead_is_not_written_over_however_many_leases_are_due() -> None:
    """Leases are renewed ahead of time where many end together; a begin time of a user's is no lease yet."""
    far = job(lease=Lease(1300, Request(), not_before=1300), eligible=1300)
    leased = [replace(job(100 + n), eligible=1400) for n in range(5000)]
    edits = renewals([(n, one) for n, one in enumerate([far, *leased])], {}, LeaseRules(), NOW, 15.0, rate=10.0)
    assert edits and 7 not in {edit.job for edit in edits}
    (soon,) = renewals([(0, far)], {}, LeaseRules(most_s=20), 1290.0, 15.0)
    assert soon.until is not None and soon.until >= 1300


def test_a_lost_pin_of_a_job_that_is_to_begin_later_is_taken_back_for_then(store: Store) -> None:
    lost = job(restarts=1, required_nodes="n1", lease=replace(MARK, not_before=1800, moved=True), eligible=1800)
    (wish,) = Past(Ledger(store, "c"), Entries()).undos([], [(lost, Pin(lost.id))], snapshot(now=NOW), LeaseRules())
    assert until(wish.edit) == 1800
