"""Readers bear anything: what they refuse, they refuse with a sentence. PAL_FUZZ_SECONDS of CPU each."""

from __future__ import annotations

import os

import pytest

from tests.fuzz import guided
from tests.fuzz.guided import Found, Watched, fuzz, least
from tests.fuzz.readers import CORPUS, READERS, kept

SECONDS = float(os.environ.get("PAL_FUZZ_SECONDS", "1.5"))
SLOW_S = float(os.environ.get("PAL_FUZZ_SECONDS", "600"))
MOST_KEPT = 300_000  # bytes


def searched(name: str, seconds: float) -> Found:
    inputs = kept(name)
    found = fuzz(READERS[name], inputs, seconds)
    assert not found.faults, f"{name}: {found.faults}"
    assert found.runs > len(inputs)
    return found


@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_with_a_sentence(name: str) -> None:
    """What earlier searches found, first: an input of which a reader was mended is among it."""
    searched(name, SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_with_a_sentence_for_ten_minutes(name: str) -> None:
    searched(name, SLOW_S)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < MOST_KEPT
    assert {path.name for path in CORPUS.iterdir()} == {*READERS, "plugin"}


def weak(data: bytes) -> None:
    READERS["words"](data)
    if data.startswith(b"pal1{b=1") and b"nan" in data:
        raise ZeroDivisionError


def test_a_fault_behind_new_ways_is_found() -> None:
    searches = (fuzz(weak, kept("words"), 1.0, seed).faults for seed in range(30))
    faults = next(found for found in searches if found)
    assert [what.partition(" ")[0] for what in faults] == ["ZeroDivisionError"]


def test_a_reader_without_an_end_and_one_that_takes_all_memory_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guided, "SLOW_S", 0.3)

    def endless(data: bytes) -> None:
        while data:
            pass

    def greedy(data: bytes) -> None:
        bytearray(1 << 40)

    assert list(fuzz(endless, [b"x"], 0.0).faults) == ["TooSlow"]
    assert list(fuzz(greedy, [b"x"], 0.0).faults) == ["MemoryError"]


def test_the_fewest_and_shortest_inputs_take_all_ways() -> None:
    inputs = [b"app:resnet", b"app:resnet and more words", b"pal:move=USR1@60", b"app:x pal:move=USR1@60"]
    watched = Watched(READERS["words"])
    chosen = least(READERS["words"], inputs)
    assert set().union(*(watched.ways(one)[0] for one in inputs)) <= set().union(
        *(watched.ways(one)[0] for one in chosen)
    )
    assert sum(map(len, chosen)) < sum(map(len, inputs))
