"""Leases that ran out: which of those jobs are still ours, how often, and when they are leased again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.leases import begins
from pal_slurm.daemon.leases.begins import MOST_TIMES
from pal_slurm.daemon.reconcile import Fate, judge
from pal_slurm.model import Edit, Intent, Job, Lease, LeaseAgain, Outcome, Renew, Request, Waits
from pal_slurm.store import Ledger, Store
from tests.builders import leased, snapshot
from tests.unit.test_daemon_reconcile import view

NOW = 1000.0
SUBMIT = 500


def lapsed(number: int = 7, **more: Any) -> Job:
    facts: dict[str, Any] = {"submit": SUBMIT, "lease": Lease(900, Request()), "eligible": 990, "why": Waits.ROOM}
    return leased(number, **(facts | more))


def found(ledger: Ledger, *jobs: Job) -> set[int]:
    return look(Entries(0.0), ledger, *jobs)


def look(watch: Entries, ledger: Ledger, *jobs: Job, now: float = NOW) -> set[int]:
    return set(begins.lapsed(begins.told(snapshot(*jobs, now=now), watch, ledger), watch, ledger))


def write(ledger: Ledger, *edits: Edit, outcome: Outcome | None = Outcome.DONE) -> None:
    ledger.write([Intent(0, SUBMIT, edit, 1, 100.0, outcome=outcome) for edit in edits])


def renewed(number: int = 7, until: int = 990) -> Edit:
    return Renew(number, until=until)


def test_a_begin_time_that_we_wrote_or_lua_tells_a_lease_that_ran_out(store: Store) -> None:
    ledger = Ledger(store, "c")
    write(ledger, renewed(), renewed(8, until=980), renewed(9, until=990))
    by_lua = lapsed(10, lease=Lease(990, Request()))
    another = replace(lapsed(9), submit=SUBMIT + 1)
    assert found(ledger, lapsed(), lapsed(8), another, by_lua) == {7, 10}


@pytest.mark.parametrize(
    "facts",
    [
        {"eligible": 1010},  # it is leased
        {"eligible": 995},  # somebody said "now": released, surrendered, undone
        {"eligible": None},  # its dependency is unmet
        {"lease": None},
        {"restarts": 1},
        {"required_nodes": "n1"},
        {"why": Waits.LIMIT},
        {"why": Waits.HELD},
        {"gpu_job": False},
    ],
)
def test_other_jobs_are_left_alone(store: Store, facts: dict[str, Any]) -> None:
    ledger = Ledger(store, "c")
    write(ledger, renewed())
    assert found(ledger, replace(lapsed(), **facts)) == set()


def test_a_task_that_was_split_off_goes_by_what_was_written_to_its_array(store: Store) -> None:
    ledger = Ledger(store, "c")
    write(ledger, renewed(7))
    assert found(ledger, lapsed(7, array_id=7, array_tasks=(2, 3)), lapsed(8, array_id=7, array_task=1)) == {7, 8}


def test_it_is_leased_again_only_so_often(store: Store) -> None:
    ledger = Ledger(store, "c")
    write(ledger, *(LeaseAgain(7, until=900 + n) for n in range(MOST_TIMES - 1)), renewed())
    write(ledger, *(LeaseAgain(7, until=800 + n) for n in range(9)), outcome=Outcome.REFUSED)
    assert found(ledger, lapsed()) == {7}
    write(ledger, LeaseAgain(7, until=990))
    assert found(ledger, lapsed()) == set()


def test_each_job_is_asked_for_once_and_again_when_its_begin_time_changed(store: Store) -> None:
    ledger, watch = Ledger(store, "c"), Entries(0.0)
    assert look(watch, ledger, lapsed()) == set()
    write(ledger, renewed(), renewed(until=999))
    assert look(watch, ledger, lapsed()) == set()
    assert look(watch, ledger, lapsed(eligible=999)) == {7}


@pytest.mark.parametrize(("eligible", "fate"), [(1040, Fate.STANDS), (990, Fate.NEVER_WAS)])
def test_killed_in_between_it_is_judged_by_what_stands(eligible: int, fate: Fate) -> None:
    intent = Intent(1, SUBMIT, LeaseAgain(7, until=1040), fence=1, written_at=NOW - 5)
    assert judge(intent, view(lapsed(eligible=eligible))).fate is fate
