"""One leader per cluster, and a fence that only ever grows (P6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.daemon.leader import Leader
from pal_slurm.errors import NotLeader
from pal_slurm.model import Intent, Plain
from pal_slurm.store import Leadership, Ledger, Store
from pal_slurm.store.tables import leader


def test_a_second_one_stands_by_and_is_told_who_leads(store: Store) -> None:
    leadership = Leadership(store, "c")
    leadership.acquire("host1:1", 0.0, 30.0)
    with pytest.raises(NotLeader, match="host1:1 leads for another 20 s"):
        leadership.acquire("host2:1", 10.0, 30.0)


def test_a_silent_leader_is_followed_by_another_with_a_greater_fence(store: Store) -> None:
    leadership = Leadership(store, "c")
    first = leadership.acquire("a", 0.0, 30.0)
    second = leadership.acquire("b", 30.0, 30.0)
    assert second.fence == first.fence + 1
    with pytest.raises(NotLeader, match="fence 1 is over; b"):
        leadership.renew(first, 31.0, 30.0)
    with pytest.raises(NotLeader):
        leadership.acquire("a", 31.0, 30.0)


def test_its_own_term_is_prolonged_with_the_same_fence_as_long_as_it_runs(store: Store) -> None:
    leadership = Leadership(store, "c")
    first = leadership.acquire("a", 0.0, 30.0)
    assert leadership.acquire("a", 20.0, 30.0).fence == first.fence
    assert leadership.renew(first, 40.0, 30.0).expires == 70.0
    assert leadership.acquire("a", 1000.0, 30.0).fence == first.fence + 1


def test_one_who_resigned_is_followed_at_once(store: Store) -> None:
    leadership = Leadership(store, "c")
    leadership.release(leadership.acquire("a", 0.0, 30.0))
    assert leadership.acquire("b", 1.0, 30.0).fence == 2


def test_one_who_is_known_to_be_dead_is_followed_at_once(store: Store) -> None:
    leadership = Leadership(store, "c")
    leadership.acquire("host:/lock:1", 0.0, 30.0)
    with pytest.raises(NotLeader):
        leadership.acquire("host:/other:2", 1.0, 30.0, dead="host:/other:")
    assert leadership.acquire("host:/lock:2", 1.0, 30.0, dead="host:/lock:").fence == 2


def test_a_row_from_a_clock_far_ahead_does_not_lead_for_ever(store: Store) -> None:
    leadership = Leadership(store, "c")
    leadership.acquire("a", 4e9, 30.0)
    assert leadership.acquire("b", 1.8e9, 30.0).owner == "b"


def test_a_lost_row_does_not_let_an_old_fence_look_new(store: Store) -> None:
    leadership, ledger = Leadership(store, "c"), Ledger(store, "c")
    ledger.write([Intent(0, 1, Plain(1), fence=41, written_at=1.0)])
    assert leadership.acquire("a", 0.0, 30.0).fence == 42
    with store.writing() as db:
        db.execute(leader.delete())
    assert leadership.current() is None
    assert leadership.acquire("a", 0.0, 30.0).fence == 42


def test_each_cluster_has_its_own_leader(store: Store) -> None:
    Leadership(store, "one").acquire("a", 0.0, 30.0)
    assert Leadership(store, "two").acquire("b", 0.0, 30.0).owner == "b"


def test_a_lock_file_on_a_full_disk_is_held_all_the_same(sqlite_store: Store, tmp_path: Path) -> None:
    """It can't say whose it is then. It was an exception out of the cycle, and the next stood by for ever behind us."""
    lock = tmp_path / "lock"
    lock.symlink_to("/dev/full")
    leader = Leader(lock, Leadership(sqlite_store, "c"), 30.0)
    assert leader.hold(0.0, 0.0).fence == leader.hold(1.0, 1.0).fence
    leader.resign()
