"""What becomes of a mover when something goes wrong: each state x each fault, on SimSlurm.

`python -m tests.moves_faults` prints the table that stands in docs/moves.md. In each cell pald moves a job of two GPUs
from n1 to n3; in the states from `waiting` on those of another job, which takes its own GPUs, or a third one's, and is
slow to end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec

from pal_slurm.daemon.undo import ours, undo
from pal_slurm.errors import StoreError
from pal_slurm.model import EditKind
from pal_slurm.sim.slurm.manners import Manners, requeues
from pal_slurm.slurm.nodes import ReservationRecord
from pal_slurm.store import Store, open_store
from tests.moving import QUICK_MOVES, Wanted, moves_of, there
from tests.simpald import House

SLOTS = (1, 3)
LONG_S = 5000.0
RELEASES = ("26.05", "24.11")


class Mover:
    """A house with one job on its way."""

    def __init__(
        self,
        house: House,
        *,
        ring: int = 1,
        words: str = "pal:move",
        answers: bool = False,
        head: bool = False,
        rival: bool = False,
    ) -> None:
        """`ring`: so many exchange their GPUs; `rival`: somebody whom nobody leases waits for them."""
        self.house, self.other = house, 0
        manners = Manners(3.0, 20.0, requeues) if answers else Manners(term_s=3.0, answer=None)
        self.job = self._run(manners, f"--comment={words}", "--gres=gpu:2")
        wanted = Wanted(house)
        if ring > 1:
            self._run(Manners(), "--gres=gpu:2")  # the rest of n1
            slow = Manners(term_s=9.0)
            members = [self.job, *(self._run(slow, "--comment=pal:move", "--gres=gpu:2") for _ in range(ring - 1))]
            self.other = members[1]
            self.target, self.slots = next(iter(house.where(self.other).items()))
        else:
            self.target, self.slots = "n3", SLOTS
        if head or rival:
            house.lua_alive = not rival
            house.submit("-N4", "--gres=gpu:4")
            house.live(3)
            house.lua_alive = True
        if ring == 1:
            wanted.move(self.job, there(self.target, *self.slots))
        else:
            for job, holder in zip(members, [*members[1:], self.job], strict=True):
                ((node, slots),) = house.where(holder).items()
                wanted.move(job, there(node, *slots), partner=holder)

    def _run(self, manners: Manners, *options: str) -> int:
        job = self.house.submit(*options, runs=LONG_S, manners=manners)
        self.house.live(4)
        assert self.house.state(job) == "RUNNING"
        return job

    def step(self) -> EditKind | None:
        moves = moves_of(self.house, self.job)
        if not moves:
            return None
        ledger = self.house.pald.pald.cycle.books.ledger
        return ledger.steps_of([moves[-1].operation])[moves[-1].operation][-1].edit.kind

    def until(self, there: Callable[[], bool]) -> None:
        for _ in range(500):
            if there():
                return
            self.house.live(0.05)
        raise AssertionError("it never came to that state")

    @property
    def state(self) -> str:
        return self.house.state(self.job)


def warned(house: House) -> Mover:
    """It will save and requeue itself."""
    return _after_the_signal(Mover(house, words="pal:move=USR1@60", answers=True))


def silent(house: House) -> Mover:
    return _after_the_signal(Mover(house, words="pal:move=USR1@60"))


def saving(house: House) -> Mover:
    """It saves and runs on; its user said that it may then be requeued."""
    return _after_the_signal(Mover(house, words="pal:move=USR1@60!"))


def _after_the_signal(mover: Mover) -> Mover:
    mover.until(lambda: mover.step() is EditKind.WARN)
    return mover


def ending(house: House) -> Mover:
    mover = Mover(house)
    mover.until(lambda: mover.state == "COMPLETING")
    return mover


def waiting(house: House) -> Mover:
    return _waits(Mover(house, ring=2))


def _waits(mover: Mover) -> Mover:
    mover.until(lambda: mover.state == "PENDING")
    return mover


def turning(house: House) -> Mover:
    """In a ring of three."""
    return _waits(Mover(house, ring=3))


def closed(house: House) -> Mover:
    """Its fence is made, and nobody was asked to go."""
    mover = Mover(house, ring=2, rival=True)
    mover.until(lambda: mover.step() is EditKind.FENCE)
    return mover


def kept(house: House) -> Mover:
    """It waits behind its fence."""
    return _waits(Mover(house, ring=2, rival=True))


def pinned(house: House) -> Mover:
    mover = Mover(house)
    mover.until(lambda: mover.step() is EditKind.PIN and mover.state == "PENDING")
    return mover


def runs(house: House) -> Mover:
    mover = Mover(house, head=True)
    mover.until(lambda: mover.step() is EditKind.PIN)
    house.alone(1.2)
    assert mover.state == "RUNNING" and house.job(mover.job).record.nice
    return mover


STATES: Mapping[str, Callable[[House], Mover]] = {
    "warned": warned, "silent": silent, "saving": saving, "ending": ending, "waiting": waiting, "turning": turning,
    "closed": closed, "kept": kept, "pinned": pinned, "runs": runs,
}  # fmt: skip


# Faults


def nothing(m: Mover) -> None:
    pass


def pald_dies(m: Mover) -> None:
    m.house.kill()
    m.house.lua_alive = False
    m.house.alone(700)
    m.house.pald = m.house.another()


def pald_starts_anew(m: Mover) -> None:
    m.house.restart()


def slurmctld_restarted(m: Mover) -> None:
    m.house.controller.answers = False
    m.house.live(4)
    m.house.controller.restart()


def slurmctld_killed(m: Mover) -> None:
    m.house.controller.kill()


def old_node_lost(m: Mover) -> None:
    m.house.controller.set_node("n1", "DOWN")


def target_lost(m: Mover) -> None:
    m.house.controller.set_node(m.target, "DOWN")


def target_drained(m: Mover) -> None:
    m.house.controller.set_node(m.target, "DRAIN")


def target_reserved(m: Mover) -> None:
    now = int(m.house.now)
    m.house.controller.reserve(ReservationRecord("maint", m.target, now - 1, now + 40_000, ["MAINT"]))


def target_taken(m: Mover) -> None:
    """By a job that nobody leases."""
    m.house.lua_alive = False
    m.house.submit("--gres=gpu:4", "-w", m.target, runs=300.0)
    m.house.alone(1.5)
    m.house.lua_alive = True


def user_cancels(m: Mover) -> None:
    m.house.controller.cancel(m.job)


def admin_holds(m: Mover) -> None:
    """For a minute; a job that runs is held when it waits."""
    if m.state == "PENDING":
        m.house.controller.hold(m.job)
        m.house.live(60)
        found = m.house.job(m.job)
        assert found.record.state == "PENDING" and found.held and found.record.priority == 0, "it was released"
        found.held, found.record.priority = False, 1000
        found.changed()
        m.house.controller.stir()


def job_ends(m: Mover) -> None:
    job = m.house.job(m.job)
    if job.running and not job.back:
        m.house.controller.end(job, job.starts, "COMPLETED")


def job_requeues_twice(m: Mover) -> None:
    for _ in range(2):
        if m.state == "RUNNING":
            m.house.controller.requeue(m.job)
        m.house.live(2)


def user_names_a_node(m: Mover) -> None:
    if m.state == "PENDING":
        m.house.user_edits(m.job, required_nodes="n4")


def undo_all(m: Mover) -> None:
    """palctl undo --all, pald dead and its database gone."""
    m.house.kill()
    m.house.lua_alive = False
    found = m.house.slurm.snapshot()
    undo(m.house.slurm, ours(found), found.taken)
    m.house.alone(300)
    m.house.pald = m.house.another()


def moves_off(m: Mover) -> None:
    pald = m.house.pald
    pald.reload(msgspec.structs.replace(pald.config, actuator="pin"))


def database_lost(m: Mover) -> None:
    """For ten minutes nothing can be written down."""
    with _read_only():
        m.house.live(600)


@contextmanager
def _read_only() -> Iterator[None]:
    writing = Store.writing

    @contextmanager
    def refused(self: Store) -> Iterator[None]:
        raise StoreError("the database can't be written: disk full")
        yield

    Store.writing = refused  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Store.writing = writing  # type: ignore[method-assign]


FAULTS: Mapping[str, Callable[[Mover], None]] = {
    "nothing": nothing,
    "pald dies for ten minutes": pald_dies,
    "pald starts anew": pald_starts_anew,
    "database lost": database_lost,
    "moves switched off": moves_off,
    "palctl undo --all, pald dead": undo_all,
    "slurmctld restarted": slurmctld_restarted,
    "slurmctld killed": slurmctld_killed,
    "old node lost": old_node_lost,
    "target lost": target_lost,
    "target drained": target_drained,
    "target reserved": target_reserved,
    "target taken": target_taken,
    "user cancels": user_cancels,
    "admin holds it for a minute": admin_holds,
    "job ends": job_ends,
    "job requeues itself twice": job_requeues_twice,
    "user names a node": user_names_a_node,
}


# What came of it


def house(release: str, home: Path, template: Path) -> House:
    return House(home, template, release=release, **QUICK_MOVES)


def told(m: Mover) -> str:
    """A few words; AssertionError: the job is not as it must be."""
    found = m.house.job(m.job)
    state = found.record.state
    if state == "PENDING":  # one that was held: what had put it ahead of the queue is given back
        first = max(job.record.priority or 0 for job in m.house.controller.pending.values())
        assert found.record.nice in (None, 0) and (found.record.priority or 0) < first
        return "waits in its turn"
    if state == "RUNNING":
        assert not found.empty, "it only seems to run"
        where = m.house.where(m.job)
        assert sum(map(len, where.values())) == 2, f"wrong number of GPUs: {where}"
        pin = found.job().pin
        if pin is not None:
            assert set(where) == pin.nodes, f"it runs on {where}, and asks for {pin}"
        assert found.record.nice in (None, 0), f"its nice is {found.record.nice}"
        at = "there" if where == {m.target: tuple(m.slots)} else "where it was" if "n1" in where else "elsewhere"
        again = found.record.restarts
        said = f"runs {at}" + (", not requeued" if not again else f", requeued {again} times" if again > 1 else "")
    else:
        assert state in ("COMPLETED", "CANCELLED"), f"it is {state}, reason {found.record.reason}"
        said = state.lower()
    assert not m.house.controller.reservations or "maint" in str(m.house.controller.reservations), "a fence is left"
    watched = m.house.pald.pald.cycle.books.ledger.watched()
    assert not [i for i in watched if i.edit.job == m.job and i.move is not None], "watched for ever"
    assert not m.house.pald.pald.cycle.movers.repo.open(), "a move goes on for ever"
    return said


@cache
def _template() -> Path:
    path = Path(tempfile.mkdtemp(prefix="moves-faults.")) / "pal.sqlite"
    open_store(f"sqlite:///{path}", create=True).close()
    return path


@cache
def cell(state: str, fault: str, release: str) -> str:
    with tempfile.TemporaryDirectory(prefix="moves-faults.") as home:
        at = house(release, Path(home) / "house", _template())
        mover = STATES[state](at)
        FAULTS[fault](mover)
        at.live(300)
        return told(mover)


def table() -> Iterator[str]:
    yield "| fault \\ state | " + " | ".join(STATES) + " |"
    yield "|---" * (len(STATES) + 1) + "|"
    for fault in FAULTS:
        yield f"| {fault} | " + " | ".join(_both(state, fault) for state in STATES) + " |"


def _both(state: str, fault: str) -> str:
    first, *others = (cell(state, fault, release) for release in RELEASES)
    return first if all(other == first for other in others) else f"{first}; 24.11: {others[0]}"


def main() -> None:
    for line in table():
        print(line)
    shutil.rmtree(_template().parent)


if __name__ == "__main__":
    main()
