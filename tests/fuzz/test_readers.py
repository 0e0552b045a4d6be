"""Readers bear anything: what they refuse, they refuse with a sentence. PAL_FUZZ_SECONDS of CPU each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.guided import fuzz
from tests.fuzz.readers import READERS, SEEDS

SECONDS = float(os.environ.get("PAL_FUZZ_SECONDS", "1.5"))
SLOW_S = float(os.environ.get("PAL_FUZZ_SECONDS", "600"))
CORPUS = Path(__file__).parent / "corpus"


def kept(name: str) -> list[bytes]:
    """What an earlier search found: one input a line, as Python writes bytes."""
    path = CORPUS / f"{name.replace(' ', '-')}.txt"
    return [bytes.fromhex(line) for line in path.read_text().split()] if path.exists() else []


def tried(name: str, seconds: float) -> None:
    found = fuzz(READERS[name], [*SEEDS[name], *kept(name)], seconds)
    assert found.fault is None, f"{name}: {found.fault[1]!r} of {found.fault[0]!r}"
    assert found.runs > len(SEEDS[name]) and len(found.lines) > 15
    if os.environ.get("PAL_FUZZ_KEEP"):
        CORPUS.mkdir(exist_ok=True)
        hexed = sorted(data.hex() for data in found.corpus)
        (CORPUS / f"{name.replace(' ', '-')}.txt").write_text("\n".join(hexed) + "\n")


@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_with_a_sentence(name: str) -> None:
    tried(name, SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_with_a_sentence_for_ten_minutes(name: str) -> None:
    tried(name, SLOW_S)


def test_a_fault_that_only_a_new_line_shows_is_found() -> None:
    def weak(data: bytes) -> None:
        READERS["words of Slurm"](data)
        if data.startswith(b"pal1{b=1") and b"nan" in data:
            raise ZeroDivisionError

    found = fuzz(weak, SEEDS["words of Slurm"], 20.0)
    assert found.fault is not None and isinstance(found.fault[1], ZeroDivisionError)
