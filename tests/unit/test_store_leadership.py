"""One leader per cluster, and a fence that only ever grows (P6)."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

import pytest

from pal_slurm.daemon.leader import Leader
from pal_slurm.errors import NotLeader, StoreError
from pal_slurm.model import Intent, Plain
from pal_slurm.store import Leadership, Ledger, Store, Term
from pal_slurm.store.tables import leader


def over(held: Term) -> float:
    return 0.0


@dataclass
class Watch:
    """A host's clocks."""

    wall: float = 0.0
    running: float = 0.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.running

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.running += seconds


def test_a_second_one_stands_by_and_is_told_who_leads(store: Store) -> None:
    leadership = Leadership(store, "c")
    leadership.acquire("host1:1", 0.0, 30.0)
    with pytest.raises(NotLeader, match="host1:1 leads for another 20 s"):
        leadership.acquire("host2:1", 10.0, 30.0, left_s=lambda held: 20.0)


def test_a_leader_whose_time_is_over_is_followed_by_another_with_a_greater_fence(store: Store) -> None:
    leadership = Leadership(store, "c")
    first = leadership.acquire("a", 0.0, 30.0)
    second = leadership.acquire("b", 30.0, 30.0, left_s=over)
    assert second.fence == first.fence + 1
    with pytest.raises(NotLeader):
        leadership.acquire("a", 31.0, 30.0, first)


def test_its_own_term_is_prolonged_with_the_same_fence_as_long_as_it_runs(store: Store) -> None:
    leadership = Leadership(store, "c")
    first = leadership.acquire("a", 0.0, 30.0)
    again = leadership.acquire("a", 20.0, 30.0, first)
    assert (again.fence, again.expires) == (first.fence, 50.0)
    assert leadership.acquire("a", 1000.0, 30.0, None, over).fence == first.fence + 1


def test_one_who_resigned_is_followed_at_once(store: Store) -> None:
    leadership = Leadership(store, "c")
    leadership.release(leadership.acquire("a", 0.0, 30.0))
    assert leadership.acquire("b", 1.0, 30.0).fence == 2


def killed(leader: Leader) -> None:
    assert leader._fd is not None
    os.close(leader._fd)


def test_one_whose_lock_file_is_ours_is_followed_at_once(sqlite_store: Store, tmp_path: Path) -> None:
    row = Leadership(sqlite_store, "c")
    first = Leader(tmp_path / "a", row, 30.0, Watch())
    first.hold()
    killed(first)
    with pytest.raises(NotLeader):
        Leader(tmp_path / "b", row, 30.0, Watch()).hold()
    assert Leader(tmp_path / "a", row, 30.0, Watch()).hold().fence == 2


def test_two_that_hold_files_of_one_name_do_not_take_the_lead_from_each_other(
    sqlite_store: Store, tmp_path: Path
) -> None:
    """Somebody removed it, it is in a /tmp of its own, or another host has our name and path."""
    row, watches = Leadership(sqlite_store, "c"), (Watch(), Watch())
    first, second = (Leader(tmp_path / "a", row, 30.0, watch) for watch in watches)
    assert first.hold().fence == 1
    (tmp_path / "a").unlink()
    for _ in range(4):
        with pytest.raises(NotLeader, match="leads for another"):
            second.hold()
        for watch in watches:
            watch.sleep(10.0)
        assert first.hold().fence == 1
    killed(first)
    with pytest.raises(NotLeader):
        second.hold()
    for watch in watches:
        watch.sleep(30.0)
    assert second.hold().fence == 2


def test_where_no_file_can_be_told_from_another_each_waits_until_the_time_is_over(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pal_slurm.daemon.leader.BOOT_ID", tmp_path / "none")
    row, watch = Leadership(sqlite_store, "c"), Watch()
    first, second = (Leader(tmp_path / "a", row, 30.0, watch) for _ in range(2))
    first.hold()
    killed(first)
    with pytest.raises(NotLeader):
        second.hold()
    watch.sleep(30.0)
    assert second.hold().fence == 2


def test_for_as_long_as_it_may_write_nobody_else_can_lead(sqlite_store: Store, tmp_path: Path) -> None:
    row, watch = Leadership(sqlite_store, "c"), Watch()
    first = Leader(tmp_path / "a", row, 30.0, watch)
    assert first.left_s <= 0
    first.hold()
    assert first.left_s == 25.0  # the rest is for what slurmctld has in hand by then
    watch.sleep(25.0)
    assert first.left_s <= 0 and first.confirm()
    assert first.goes_on(1) and first.left_s == 25.0
    first.resign()
    assert first.left_s <= 0


@pytest.mark.parametrize("off", [-3600.0, 50.0, 4e9])
def test_a_wrong_wall_clock_neither_takes_a_lead_that_lasts_nor_leaves_one_that_is_over(
    sqlite_store: Store, tmp_path: Path, off: float
) -> None:
    row = Leadership(sqlite_store, "c")
    watches = (Watch(1e9), Watch(1e9 + off))
    first, second = (Leader(tmp_path / f"{n}", row, 30.0, watch) for n, watch in enumerate(watches))

    def wait(seconds: float) -> None:
        for watch in watches:
            watch.sleep(seconds)

    first.hold()
    with pytest.raises(NotLeader, match="leads for another 30 s"):
        second.hold()
    wait(20.0)
    assert first.hold().fence == 1
    wait(20.0)  # 40 s after it was first seen, and it has changed since
    with pytest.raises(NotLeader):
        second.hold()
    wait(29.0)
    assert not first.confirm()
    with pytest.raises(NotLeader, match="leads for another 1 s"):
        second.hold()
    wait(1.0)
    assert second.hold().fence == 2
    with pytest.raises(NotLeader):
        first.hold()
    assert second.confirm() and not first.confirm()


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


def test_whoever_writes_for_longer_than_a_term_prolongs_it_and_no_other_fence_will_do(
    sqlite_store: Store, tmp_path: Path
) -> None:
    row, watches = Leadership(sqlite_store, "c"), (Watch(), Watch())
    first, second = (Leader(tmp_path / f"{n}", row, 30.0, watch) for n, watch in enumerate(watches))
    assert first.hold().fence == 1
    for _ in range(6):
        with pytest.raises(NotLeader):
            second.hold()
        for watch in watches:
            watch.sleep(10.0)
        assert first.goes_on(1) and not first.goes_on(0)
    with pytest.raises(NotLeader):
        second.hold()
    for watch in watches:
        watch.sleep(30.0)
    assert not first.goes_on(1)
    assert second.hold().fence == 2 and not first.goes_on(1)


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_a_lock_file_that_is_a_link_is_refused_and_its_target_stays_as_it_is(
    kind: str, sqlite_store: Store, tmp_path: Path
) -> None:
    """Root may run pald in pal's directory: it would write and give away what the link leads to."""
    target, lock = tmp_path / "target", tmp_path / "pald.lock"
    target.write_text("untouched")
    lock.symlink_to(target) if kind == "symbolic" else lock.hardlink_to(target)
    with pytest.raises(StoreError, match=r"leader\.lock_file"):
        Leader(lock, Leadership(sqlite_store, "c"), 30.0, Watch()).hold()
    assert target.read_text() == "untouched"


def test_a_lock_file_on_a_full_disk_is_held_all_the_same(sqlite_store: Store, tmp_path: Path) -> None:
    """It can't say whose it is then. It was an exception out of the cycle, and the next stood by for ever behind us."""

    class Room(Watch):
        """There is room again once the lock is held: the database needs it."""

        def monotonic(self) -> float:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            return super().monotonic()

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    leader = Leader(tmp_path / "lock", Leadership(sqlite_store, "c"), 30.0, Room())
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        assert leader.hold().fence == leader.hold().fence
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "lock").read_bytes() == b""
    leader.resign()
