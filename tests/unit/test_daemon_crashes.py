"""P3: pald dies at any moment at which it writes, to its books or to Slurm; nothing is done twice or left half done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy import Connection

from pal_slurm.model import EditKind
from pal_slurm.store import Store
from tests.simpald import Crash, House

Make = Callable[..., House]


class Fuse:
    """Burns down with each instruction that writes: before and after each transaction, update, and answer of Slurm."""

    def __init__(self, at: int | None = None) -> None:
        self.passed, self.at = 0, at

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            raise Crash


@contextmanager
def armed(house: House, fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    writing = Store.writing

    @contextmanager
    def fused(self: Store) -> Iterator[Connection]:
        fuse()
        with writing(self) as db:
            yield db
            fuse()  # not committed
        fuse()

    with monkeypatch.context() as patch:
        patch.setattr(Store, "writing", fused)
        house.watch.each = fuse
        house.watch.after["apply"] = fuse
        try:
            yield
        finally:
            house.watch.each = lambda: None
            house.watch.after.clear()


def an_afternoon(house: House) -> list[int]:
    """A pin, one that has to be undone, a plain start, renewals: every kind of edit."""
    jobs = [house.submit("--gres=gpu:2"), house.submit("--gres=gpu:1", "-w", "n2"), house.submit("-N2", "--gpus=4")]
    house.live(3)
    jobs.append(house.submit("-a", "1-2", "--gpus=1", "-d", f"afterany:{jobs[0]}"))
    jobs.append(house.submit("--gpus=3", "-x", "n1,n2"))
    house.pald.cycle()
    house.controller.set_node("n3", "DRAIN")
    house.live(40)
    return jobs


def counted(make_house: Make, monkeypatch: pytest.MonkeyPatch) -> tuple[House, int]:
    house, fuse = make_house(), Fuse()
    with armed(house, fuse, monkeypatch):
        an_afternoon(house)
    return house, fuse.passed


def test_the_afternoon_holds_every_kind_of_edit(make_house: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    house, passed = counted(make_house, monkeypatch)
    kinds = Counter(intent.edit.kind for intent in house.intents())
    assert {EditKind.PIN, EditKind.UNPIN, EditKind.PLAIN, EditKind.RENEW} <= kinds.keys()
    assert passed > 100


PARTS = [pytest.param(part, marks=[pytest.mark.slow] if part % 6 else []) for part in range(24)]


@pytest.mark.every(2)
@pytest.mark.parametrize("part", PARTS)
def test_a_crash_at_any_write_leaves_nothing_twice_and_nothing_half(
    part: int, make_house: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, points = counted(make_house, monkeypatch)
    for at in range(1 + part, points + 1, len(PARTS)):
        house = make_house()
        with suppress(Crash), armed(house, Fuse(at), monkeypatch):
            an_afternoon(house)
        house.restart()
        house.controller.set_node("n3", "DRAIN")
        if not house.controller.find(4) and 4 not in house.controller.ended:  # it died before these were submitted
            house.submit("-a", "1-2", "--gpus=1")
            house.submit("--gpus=3", "-x", "n1,n2")
        house.live(1500)
        assert not house.controller.pending, f"crash at write {at}: a job never started"
        assert house.intents()[-1].outcome is not None, at
        assert house.pald.pald.cycle.books.ledger.watched() == [], f"crash at write {at}: something is watched for ever"
        assert twice(house) == [], f"crash at write {at}"


def twice(house: House) -> list[str]:
    """Jobs that were pinned again without their first pin having been taken back."""
    standing: dict[str, str] = {}
    found = []
    for update in house.journal:
        nodes = update.asked.texts.get("nodes")
        if nodes and standing.get(update.target):
            found.append(f"{update.target} on {standing[update.target]}, then {nodes}")
        if nodes is not None:
            standing[update.target] = nodes
    return found
