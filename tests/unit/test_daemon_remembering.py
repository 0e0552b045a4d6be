"""What the policy remembers outlives pald; whatever is odd about it, it is forgotten and nobody waits longer."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pal_slurm.daemon.remembering import EVERY_S, Remembering
from pal_slurm.model import JobRef, Reason
from pal_slurm.policy.memory import NO_MEMORY, Head, Memory, memory_of
from pal_slurm.policy.seams import Promised
from pal_slurm.store import MemoryRepo, Store

NOW = 1000.0
DAY = 86400.0
HUGE = '{"version": 1, "begun": 1.0, "declining": [[1, 1, 1' + "0" * 400 + ']], "heads": []}'
MEMORY = Memory(NOW - 50, {JobRef(7, 100): 950.0}, {JobRef(8, 100): Head(960.0, 1200.0)})


def stored(store: Store, now: float = NOW + DAY) -> Memory:
    return Remembering(MemoryRepo(store, "c")).of(1, now)


def test_it_is_there_after_a_restart_and_for_the_next_leader(store: Store) -> None:
    ours = Remembering(MemoryRepo(store, "c"))
    assert ours.of(1, NOW) == NO_MEMORY
    ours.keep(MEMORY, 1, NOW)
    assert ours.of(1, NOW) == MEMORY == stored(store)
    assert Remembering(MemoryRepo(store, "other")).of(1, NOW) == NO_MEMORY


def test_one_that_changes_in_every_cycle_is_written_now_and_then(store: Store) -> None:
    ours = Remembering(MemoryRepo(store, "c"))
    for n in range(3):
        ours.keep(Memory(NOW + n), 1, NOW + n)
    assert ours.of(1, NOW) == Memory(NOW + 2) and stored(store) == Memory(NOW)
    ours.keep(Memory(NOW + 3), 1, NOW + EVERY_S)
    assert stored(store) == Memory(NOW + 3)
    ours.keep(Memory(NOW + 4), 1, NOW - 3600)  # the clock was set back
    assert stored(store) == Memory(NOW + 4)


def test_what_changed_within_that_time_is_written_later_although_nothing_changes_any_more(store: Store) -> None:
    ours = Remembering(MemoryRepo(store, "c"))
    ours.keep(Memory(NOW), 1, NOW)
    for after in (1.0, EVERY_S, 2 * EVERY_S):
        ours.keep(MEMORY, 1, NOW + after)
    assert stored(store) == MEMORY


def test_a_leader_that_was_replaced_writes_nothing_and_one_that_leads_again_reads_anew(store: Store) -> None:
    old, new = Remembering(MemoryRepo(store, "c")), Remembering(MemoryRepo(store, "c"))
    old.keep(Memory(NOW), 1, NOW)
    new.keep(MEMORY, 2, NOW + 10)
    old.keep(Memory(NOW + 20), 1, NOW + 20)
    assert stored(store) == MEMORY
    assert old.of(3, NOW) == MEMORY


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "[]",
        "7",
        "[" * 5000,
        '{"version": 1, "begun": 1.0, "declining": [[1, 1, 1' + "0" * 400 + ']], "heads": []}',
        '"torn',
        '{"version": 999, "begun": 1.0}',
        '{"version": 1}',
        '{"version": 1, "begun": "x"}',
    ],
)
def test_a_row_that_is_torn_or_newer_is_forgotten_with_a_sentence(
    store: Store, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = Remembering(MemoryRepo(store, "c"))
    ours.keep(MEMORY, 1, NOW)
    with store.writing() as db:
        db.execute(text("UPDATE memory SET value = :value").bindparams(value=value))
    assert stored(store) == NO_MEMORY
    assert "can't be read by this pald, and is forgotten" in caplog.text
    ours.keep(Memory(NOW + 90), 1, NOW + 90)
    assert stored(store) == Memory(NOW + 90)


def test_times_that_have_not_come_are_forgotten(store: Store) -> None:
    """The leader that wrote them had a clock that was ahead."""
    repo = MemoryRepo(store, "c")
    ahead = Memory(
        NOW - 50, {JobRef(6, 100): NOW + 9, JobRef(7, 100): 950.0}, {JobRef(8, 100): Head(NOW + 9, NOW + 99)}
    )
    repo.keep(ahead.plain(), 1, NOW)
    assert stored(store, NOW) == Memory(NOW - 50, {JobRef(7, 100): 950.0})
    repo.keep(Memory(NOW + 1, ahead.declining).plain(), 1, NOW)
    assert stored(store, NOW) == NO_MEMORY


def test_a_promise_is_kept_by_the_name_of_its_reason_whatever_patience_gave_it(store: Store) -> None:
    promised = {JobRef(number, 100): Promised(2000.0, 1.5, reason) for number, reason in enumerate(Reason)}
    memory = Memory(NOW - 50, dict.fromkeys(promised, 950.0), promised=promised)
    Remembering(MemoryRepo(store, "c")).keep(memory, 1, NOW)
    assert stored(store) == memory


@pytest.mark.parametrize(
    ("version", "why", "kept"),
    [(2, 0, Reason.BETTER_SPAN_SOON), (2, 1, Reason.BETTER_GPUS_SOON), (2, 7, None), (3, "of-a-newer-pald", None)],
)
def test_a_promise_for_a_reason_that_is_not_known_is_forgotten_and_nothing_else(
    version: int, why: object, kept: Reason | None
) -> None:
    plain = Memory(NOW - 50, {JobRef(7, 100): 950.0}, {JobRef(8, 100): Head(960.0, 1200.0)}).plain()
    memory = memory_of(plain | {"version": version, "promised": [[7, 100, 2000.0, 1.5, why]]})
    assert {key: promise.reason for key, promise in memory.promised.items()} == (
        {} if kept is None else {JobRef(7, 100): kept}
    )
    assert memory.declining and memory.heads and memory.begun == NOW - 50


def test_what_a_patience_learned_is_kept_with_its_name(store: Store) -> None:
    memory = Memory(NOW, lessons=((1.0, 2.0, 3.0),), learner="dally")
    Remembering(MemoryRepo(store, "c")).keep(memory, 1, NOW)
    assert stored(store) == memory


def test_a_large_one_fits(store: Store) -> None:
    many = Memory(NOW, {JobRef(number, 1_700_000_000): 999.123456 for number in range(10_000)})
    Remembering(MemoryRepo(store, "c")).keep(many, 1, NOW)
    assert stored(store) == many


def test_one_that_can_not_be_kept_is_told_and_stops_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    ours = Remembering(MemoryRepo(store, "c"))
    rename(store, "memory", "away")
    try:
        ours.keep(MEMORY, 1, NOW)
    finally:
        rename(store, "away", "memory")  # servers are there for all tests
    assert "can't be kept" in caplog.text
    ours.keep(MEMORY, 1, NOW + EVERY_S)
    assert stored(store) == MEMORY


def rename(store: Store, table: str, name: str) -> None:
    with store.writing() as db:
        db.execute(text(f"ALTER TABLE {table} RENAME TO {name}"))
