"""The fate of each intent, judged by what Slurm shows: a table of situations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.daemon.past import Past
from pal_slurm.daemon.reconcile import Fate, View, arrays_of, expected, judge, orphans
from pal_slurm.guard import Rules
from pal_slurm.model import (
    Action,
    Decision,
    Edit,
    EditKind,
    Intent,
    Job,
    JobRef,
    JobState,
    Lease,
    OperationKind,
    Outcome,
    Pin,
    Placement,
    Reason,
    Request,
    Unpin,
    Waits,
    homogeneous,
)
from pal_slurm.slurm.port import Passes
from pal_slurm.store import Ledger, Store
from tests.builders import leased, snapshot

FIVE = homogeneous(5, 4)
FULL = replace(FIVE, gpu_free=np.zeros_like(FIVE.gpu_free))
NOW = 1000.0
ORIGINAL = Request(per_node="gres/gpu:2")
WHERE = Placement(("n2", "n5"), ((1, 3), (1, 3)), exact=True)
PIN = Pin(7, nodes=WHERE.nodes, slots=(1, 3), original=ORIGINAL)
DECISION = Decision(7, None, Action.START, Reason.BEST_SPAN, WHERE)


def intent(edit: Edit = PIN, outcome: Outcome | None = Outcome.DONE, **more: Any) -> Intent:
    base = Intent(1, 500, edit, fence=1, written_at=NOW - 5, outcome=outcome, decision=DECISION)
    return replace(base, passes_main=10, passes_backfill=5, **more)


def job(**more: Any) -> Job:
    facts: dict[str, Any] = {
        "submit": 500,
        "request": ORIGINAL,
        "lease": Lease(900, ORIGINAL),
        "eligible": 990,
        "why": Waits.UNSEEN,
    }
    return leased(7, **(facts | more))


def pinned(**more: Any) -> Job:
    request = Request(per_job="gres/gpu:g1:2,gres/gpu:g3:2", min_nodes=2, max_nodes=2)
    return job(**{"required_nodes": "n[2,5]", "request": request, "slots": (1, 3)} | more)


def view(*jobs: Job, main: int = 10, backfill: int = 5, ok: tuple[str, ...] = ("n2", "n5"), undos: int = 0) -> View:
    passes = Passes(main, backfill, 0, 0, 0)
    known = {j.id: j for j in jobs}
    return View(known, {}, frozenset(ok), passes, NOW, {JobRef(7, 500): undos}, arrays=arrays_of(jobs))


@pytest.mark.parametrize(
    ("what", "given", "seen", "fate"),
    [
        ("it runs", intent(), [pinned(state=JobState.RUNNING)], Fate.STARTED),
        ("it is gone", intent(), [], Fate.GONE),
        ("its id came round again", intent(), [pinned(submit=501)], Fate.GONE),
        ("killed before the edit", intent(outcome=None), [job(eligible=1010)], Fate.NEVER_WAS),
        ("killed after the edit", intent(outcome=None), [pinned()], Fate.STANDS),
        ("killed, and half of it stands", intent(outcome=None), [pinned(eligible=1010)], Fate.UNDO),
        ("no answer, and it stands", intent(outcome=Outcome.UNKNOWN), [pinned()], Fate.STANDS),
        ("half-way by slurmctld's own word", intent(outcome=Outcome.PARTIAL), [pinned(eligible=1010)], Fate.UNDO),
        ("slots are missing", intent(outcome=None), [job(required_nodes="n[2,5]")], Fate.UNDO),
        ("Slurm has not looked yet", intent(), [pinned()], Fate.WAITING),
        ("constraints went bad", intent(), [pinned(why=Waits.NEVER)], Fate.UNDO),
        ("limits hold it", intent(), [pinned(why=Waits.LIMIT)], Fate.SURRENDER),
        ("a limit of its user's holds it", intent(), [pinned(why=Waits.THEIR_LIMIT)], Fate.UNDO),
        ("its list was changed by hand", intent(), [job(required_nodes="n9")], Fate.THEIRS),
        ("its list was cleared by hand", intent(), [job()], Fate.THEIRS),
    ],
    ids=lambda v: v.replace(" ", "-") if isinstance(v, str) and not isinstance(v, Fate) else "",
)
def test_the_fate_of_an_intent(what: str, given: Intent, seen: list[Job], fate: Fate) -> None:
    assert judge(given, view(*seen)).fate is fate, what


def test_a_node_that_went_down_after_the_pin_undoes_it() -> None:
    t = judge(intent(), view(pinned(), ok=("n2",)))
    assert t.fate is Fate.UNDO
    assert "n5" in t.cause


def test_did_not_start_is_judged_by_slurms_own_passes_not_by_our_cycles() -> None:
    waiting = pinned(why=Waits.ROOM)
    assert judge(intent(), view(waiting, main=11)).fate is Fate.WAITING
    assert judge(intent(), view(waiting, main=12)).fate is Fate.UNDO
    assert judge(intent(), view(waiting, backfill=7)).fate is Fate.UNDO


@pytest.mark.parametrize(
    ("fence", "fates"), [(1, [Fate.WAITING, Fate.WAITING, Fate.UNDO]), (2, [Fate.WAITING, Fate.UNDO])]
)
def test_passes_count_from_the_first_look_at_a_pin_and_for_the_next_pald_from_what_is_written(
    store: Store, fence: int, fates: list[Fate]
) -> None:
    """Those before may have been on their way when it was written, and many edits at once make many passes."""
    ledger, waiting = Ledger(store, "c"), snapshot(pinned(why=Waits.ROOM), now=NOW, cluster=FULL)
    ledger.write([intent()])
    past, first = Past(ledger, Entries()), 15 if fence == 1 else 11
    looks = (past.reconciled(waiting, Passes(first + n, 5, 0, 0, 0), Rules(True), fence)[0] for n in range(len(fates)))
    assert [found.fate for (found,) in looks] == fates


def test_behind_a_job_that_can_not_start_only_backfill_passes_count() -> None:
    waiting = pinned(why=Waits.TURN)
    assert judge(intent(), view(waiting, main=500)).fate is Fate.WAITING
    assert judge(intent(), view(waiting, main=500, backfill=6)).fate is Fate.WAITING
    assert judge(intent(), view(waiting, backfill=7)).fate is Fate.UNDO
    for_ever = replace(intent(), written_at=NOW - 700)
    assert judge(for_ever, view(waiting, main=500)).fate is Fate.UNDO


def test_a_task_counts_its_own_undos_not_those_of_its_array() -> None:
    edit = replace(PIN, job=70, task=4)
    split = pinned(id=93, array_id=70, array_task=4, why=Waits.ROOM)
    seen = replace(view(split, main=20), tasks={(70, 4): split})
    assert judge(intent(edit), replace(seen, undos={JobRef(70, 500): 5})).fate is Fate.UNDO
    assert judge(intent(edit), replace(seen, undos={JobRef(93, 500): 2})).fate is Fate.SURRENDER


def test_passes_that_did_not_reach_the_job_do_not_count_for_a_while() -> None:
    assert judge(intent(), view(pinned(why=Waits.UNSEEN), main=500)).fate is Fate.WAITING
    old = intent(written_at=NOW - 100)
    assert judge(old, view(pinned(why=Waits.UNSEEN), main=500)).fate is Fate.UNDO


def test_passes_count_anew_after_a_restart_of_slurmctld() -> None:
    assert judge(intent(), view(pinned(why=Waits.ROOM), main=1, backfill=0)).fate is Fate.WAITING
    assert judge(intent(), view(pinned(why=Waits.ROOM), main=2, backfill=0)).fate is Fate.UNDO


def test_a_job_whose_pins_were_taken_back_twice_is_surrendered_the_third_time() -> None:
    t = judge(intent(), view(pinned(why=Waits.ROOM), main=20, undos=2))
    assert t.fate is Fate.SURRENDER


def test_an_undo_that_was_cut_short_is_done_again() -> None:
    undo = intent(Unpin(7, original=ORIGINAL), outcome=None)
    assert judge(undo, view(pinned())).fate is Fate.UNDO
    assert judge(undo, view(job())).fate is Fate.STANDS


def test_a_task_that_still_shares_its_record_was_never_pinned() -> None:
    edit = replace(PIN, job=70, task=4)
    record = job(id=70, array_id=70, array_tasks=(4, 5), eligible=1010)
    assert judge(intent(edit, outcome=None), view(record)).fate is Fate.NEVER_WAS


def test_a_task_is_found_by_its_own_record() -> None:
    edit = replace(PIN, job=70, task=4)
    split = pinned(id=93, array_id=70, array_task=4)
    seen = replace(view(split), tasks={(70, 4): split})
    assert judge(intent(edit), seen).fate is Fate.WAITING


def test_a_pin_that_nobody_watches_is_an_orphan_and_a_users_own_list_is_not() -> None:
    requeued = pinned(id=8, restarts=1)
    own = job(id=9, required_nodes="n1", lease=Lease(900, ORIGINAL, own_nodes=True))
    foreign = job(id=10, required_nodes="n1", lease=None)
    typed = pinned(id=11, eligible=int(NOW) + 50)  # still leased: a pin would have ended the lease
    assert [j.id for j in orphans([requeued, own, foreign, typed, pinned()], frozenset({7}), NOW)] == [8]


def test_pins_that_have_not_started_count_as_taken() -> None:
    assert expected([judge(intent(), view(pinned()))]) == {7: WHERE}
    assert expected([judge(intent(), view(pinned(state=JobState.RUNNING)))]) == {}


TWO: dict[str, Any] = {"kind": OperationKind.MOVE, "plan": (EditKind.UNPIN, EditKind.PIN)}
FIRST = Unpin(7, None, 1010, ORIGINAL)
LEASED_AGAIN: dict[str, Any] = {"eligible": 1010}


@pytest.mark.parametrize(
    ("what", "given", "seen", "fate"),
    [
        ("first, killed before the edit", intent(FIRST, None, **TWO), [pinned()], Fate.UNDO),
        ("first, killed after the edit", intent(FIRST, None, **TWO), [job(**LEASED_AGAIN)], Fate.GOES_ON),
        ("first, seen to stand", intent(FIRST, **TWO), [job(**LEASED_AGAIN)], Fate.GOES_ON),
        ("first, and it runs", intent(FIRST, **TWO), [job(state=JobState.RUNNING)], Fate.GOES_ON),
        ("first, and it is gone", intent(FIRST, **TWO), [], Fate.GONE),
        ("last, killed before the edit", intent(PIN, None, **TWO, step=1), [job(**LEASED_AGAIN)], Fate.NEVER_WAS),
        ("last, killed after the edit", intent(PIN, None, **TWO, step=1), [pinned()], Fate.STANDS),
        ("last, half of it stands", intent(PIN, None, **TWO, step=1), [pinned(eligible=1010)], Fate.UNDO),
        ("last, not looked at yet", intent(PIN, **TWO, step=1), [pinned()], Fate.WAITING),
        ("last, and it runs", intent(PIN, **TWO, step=1), [pinned(state=JobState.RUNNING)], Fate.STARTED),
        ("last, its user edited it", intent(PIN, **TWO, step=1), [job(required_nodes="n9")], Fate.THEIRS),
    ],
    ids=lambda v: v.replace(" ", "-") if isinstance(v, str) and not isinstance(v, Fate) else "",
)
def test_the_fate_of_an_operation_of_two_steps(what: str, given: Intent, seen: list[Job], fate: Fate) -> None:
    assert judge(given, view(*seen)).fate is fate, what


def test_an_operation_that_we_can_not_go_on_with_leaves_its_job_to_slurm(store: Store) -> None:
    ledger = Ledger(store, "c")
    ledger.write([intent(FIRST, **TWO)])
    seen, past = job(**LEASED_AGAIN), Past(ledger, Entries())
    now = snapshot(seen, now=NOW)
    fates, lost = past.reconciled(now, Passes(10, 5, 0, 0, 0), Rules(True), fence=1)
    (wish,) = past.undos(fates, lost, now, LeaseRules())
    assert wish.edit == Unpin(7, original=ORIGINAL)
    assert ledger.watched() == [] and [i.outcome for i in ledger.of_job(7)] == [Outcome.DONE]


PLAIN_BEHIND: dict[str, Any] = {"eligible": 990, "why": Waits.TURN, "submit": 500, "partitions": ("gpu", "night")}


@pytest.mark.parametrize(
    ("what", "other", "leased_again", "why"),
    [
        ("nobody else waits", None, True, Waits.NEVER),
        ("one that was let go is behind it", leased(8, **PLAIN_BEHIND), False, Waits.NEVER),
        ("a limit of its own keeps it", leased(8, **PLAIN_BEHIND), True, Waits.THEIR_LIMIT),
        ("one of others is behind it", replace(leased(8, **PLAIN_BEHIND), lease=None), False, Waits.NEVER),
        ("one that was let go is ahead of it", leased(6, **PLAIN_BEHIND), True, Waits.NEVER),
        ("one behind it is leased too", leased(8, submit=500, partitions=("gpu",)), True, Waits.NEVER),
        (
            "one behind it is pinned elsewhere",
            leased(8, **PLAIN_BEHIND, required_nodes="n1", slots=(0,)),
            True,
            Waits.NEVER,
        ),
        (
            "one behind it is in another partition",
            leased(8, **(PLAIN_BEHIND | {"partitions": ("other",)})),
            True,
            Waits.NEVER,
        ),
        ("one behind it is kept by a limit", leased(8, **(PLAIN_BEHIND | {"why": Waits.LIMIT})), True, Waits.NEVER),
        ("one behind it wants no GPU", leased(8, **PLAIN_BEHIND, gpu_job=False), True, Waits.NEVER),
    ],
    ids=lambda v: v.replace(" ", "-") if isinstance(v, str) else "",
)
def test_a_job_whose_pin_is_taken_back_keeps_its_turn_where_it_would_be_passed(
    store: Store, what: str, other: Job | None, leased_again: bool, why: Waits
) -> None:
    """As it is in Slurm's own queue; else it is leased again, and placed."""
    ledger, past = Ledger(store, "c"), Past(Ledger(store, "c"), Entries())
    ledger.write([intent()])
    mine = pinned(why=why, reason="for some reason", partitions=("gpu",))
    seen = snapshot(mine, *([other] if other else []), now=NOW, cluster=FIVE)
    fates, lost = past.reconciled(seen, Passes(10, 5, 0, 0, 0), Rules(True), fence=1)
    wish = past.undos(fates, lost, seen, LeaseRules())[0]
    assert isinstance(wish.edit, Unpin) and (wish.edit.until is not None) is leased_again, what
    assert wish.cause == fates[0].cause == mine.reason
    assert (mine.key in past.entries.held_back(NOW)) is (leased_again and why is Waits.NEVER)
