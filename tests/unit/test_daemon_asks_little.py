"""What a cycle asks of the database when nothing happens, and that nothing is missed for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from pal_slurm.errors import StoreError
from pal_slurm.model import Action, Ending, Intent, Move, NotBegun
from pal_slurm.store import Store, Why
from tests.moving import QUICK_MOVES, Wanted, the_move, there
from tests.simpald import House

Make = Callable[..., House]


@contextmanager
def counted(store: Store) -> Iterator[Counter[str]]:
    """Transactions by their kind."""
    found: Counter[str] = Counter()
    before = {"reading": store.reading, "writing": store.writing}

    def counting(kind: str) -> object:
        @contextmanager
        def transaction() -> Iterator[Connection]:
            found[kind] += 1
            with before[kind]() as db:
                yield db

        return transaction

    with pytest.MonkeyPatch.context() as patch:
        for kind in before:
            patch.setattr(store, kind, counting(kind))
        yield found


@pytest.mark.parametrize(("actuator", "release"), [("pin", "26.05"), ("move", "26.05"), ("pin", "22.05")])
def test_where_nothing_is_to_be_done_a_cycle_asks_three_things_and_prolongs_its_term(
    make_house: Make, actuator: str, release: str
) -> None:
    """Also where pins name nodes alone (22.05): of none of those who run there is asked whose choice they were."""
    house = make_house(count=1, actuator=actuator, release=release)
    house.submit("--gres=gpu:4", runs=500.0)
    house.submit("--gres=gpu:4", runs=500.0)
    house.live(30)
    seen: Counter[tuple[int, int]] = Counter()
    for _ in range(10):
        with counted(house.pald.pald.store) as asked:
            house.pald.cycle()
        seen[asked["reading"], asked["writing"]] += 1
    assert seen.most_common(1)[0][0] == (3, 1)  # in some a lease is renewed, or what the policy remembers is kept


def test_a_move_whose_commit_was_told_as_failed_is_seen_and_gone_on_with(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = house.submit("--comment=pal:move", "--gres=gpu:2", runs=5000.0)
    house.live(5)
    ledger = house.pald.pald.cycle.books.ledger
    write = ledger.write

    def forgotten(planned: Sequence[Intent]) -> list[Intent]:
        written = write(planned)
        if any(intent.move is not None for intent in planned):
            ledger.write = write  # type: ignore[method-assign]
            raise StoreError("database: the connection was lost")
        return written

    ledger.write = forgotten  # type: ignore[method-assign]
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(2)
    assert the_move(house, job).ending is None and house.where(job) != {"n3": (1, 3)}
    house.live(600)
    assert the_move(house, job).ending is not None
    assert the_move(house, job).ending in (Ending.MOVED, Ending.STAYED)
    assert ledger.watched() == [] and house.state(job) == "RUNNING"


def test_a_reason_that_could_not_be_written_is_written_by_the_next_cycle(house: House) -> None:
    """pald does not remember as told what is not on disk."""
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=1000.0)
    house.live(20)
    waits = house.submit("--gres=gpu:4")
    decisions = house.pald.pald.cycle.books.decisions
    record = decisions.record

    def locked(reasons: Sequence[Why]) -> int:
        decisions.record = record  # type: ignore[method-assign]
        raise StoreError("database: it is locked by another program")

    decisions.record = locked  # type: ignore[method-assign,assignment]
    assert house.pald.cycle().end == "store"
    assert decisions.of_job(waits) == []
    house.live(10)
    assert [why.decision.action for why in decisions.of_job(waits)] == [Action.WAIT]


def test_why_a_move_was_not_begun_is_written_by_the_next_cycle(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = house.submit("--gres=gpu:2", runs=5000.0)  # never said that it may be moved
    house.live(5)
    ledger = house.pald.pald.cycle.books.ledger
    refuse = ledger.refuse

    def locked(refused: Sequence[NotBegun]) -> None:
        ledger.refuse = refuse  # type: ignore[method-assign]
        raise StoreError("database: it is locked by another program")

    ledger.refuse = locked  # type: ignore[method-assign,assignment]
    wanted = Wanted(house)
    wanted.move(job, there("n3", 1, 3))
    house.live(2)
    wanted.move(job, there("n3", 1, 3))
    house.live(5)
    assert len(ledger.refused(job)) == 1


@pytest.mark.parametrize("many", [1, 12])
def test_of_jobs_on_nodes_that_their_users_named_it_asks_once_however_many_there_are(house: House, many: int) -> None:
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=5000.0)
    house.live(20)
    jobs = [house.submit("--gres=gpu:4") for _ in range(many)]
    house.live(20)
    for job in jobs:  # scontrol update nodelist=n1 starttime=now
        house.job(job).begin = 0.0
        house.controller.settle(house.job(job))
        house.user_edits(job, required_nodes="n1")
    house.live(30)
    seen: Counter[tuple[int, int]] = Counter()
    for _ in range(10):
        house.alone(1)
        with counted(house.pald.pald.store) as asked:
            house.pald.cycle()
        seen[asked["reading"], asked["writing"]] += 1
    assert seen.most_common(1)[0][0] == (4, 1)  # one more than where there is none


def test_moves_that_are_known_are_not_read_again_when_others_begin(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    house.submit("--gres=gpu:4", "--begin=now+10hour")  # so that pald looks on, and leads on
    jobs = [house.submit("--comment=pal:move", "--gres=gpu:1", runs=5000.0) for _ in range(3)]
    house.live(5)
    repo, read = house.pald.pald.cycle.movers.repo, list[tuple[int, ...]]()
    after = repo.after

    def told(operation: int) -> list[Move]:
        found = after(operation)
        read.append(tuple(move.job for move in found))
        return found

    repo.after = told  # type: ignore[method-assign]
    wanted = Wanted(house)
    for slot, job in enumerate(jobs):
        wanted.move(job, there("n4", slot))
        house.live(200)
    assert [moved for moved in read if moved] == [(job,) for job in jobs]
    assert [the_move(house, job).ending for job in jobs] == [Ending.MOVED] * 3
