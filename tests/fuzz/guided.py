"""Inputs that reach new lines. In: a reader, inputs to begin with, seconds. Out: what it can't bear; a corpus.

Coverage-guided as libFuzzer is, of lines and only within pal_slurm: an input that reaches a line which none reached
before is kept, and changed further. A reader may refuse with a PalError; anything else that leaves it is a fault.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from pal_slurm.errors import PalError

Reader = Callable[[bytes], object]
Line = tuple[str, int]
MOST_BYTES = 4096
WORDS = (
    b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b",", b"|", b"{", b"}", b"[", b"]", b'"', b":", b"=",
    b"-1", b"0", b"nan", b"inf", b"-inf", b"1e309", b"9" * 25, b"1_0", b"0x1f", b"true", b"null", b"&a [*a]", b"%",
    "é٣\u202e".encode(), b"\x1b[2J", b"n[1-3]", b"n[1-99999999]", b"gpu:g1:1", b"2026-11-19T00:00:00", b" ", b"\t",
)  # fmt: skip


@dataclass
class Found:
    runs: int = 0
    lines: set[Line] = field(default_factory=set)
    corpus: list[bytes] = field(default_factory=list)
    fault: tuple[bytes, BaseException] | None = None


def fuzz(reader: Reader, seeds: Sequence[bytes], cpu_s: float, seed: int = 0) -> Found:
    """Ends at the first fault."""
    rng, found = random.Random(seed), Found()
    end = time.process_time() + cpu_s
    for data in seeds:
        _run(reader, data, found)
    while found.fault is None and time.process_time() < end:
        _run(reader, changed(rng, found.corpus or list(seeds)), found)
    return found


def _run(reader: Reader, data: bytes, found: Found) -> None:
    seen: set[Line] = set()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        return line if "/pal_slurm/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        reader(data)
    except PalError:
        pass
    except Exception as error:
        found.fault = found.fault or (data, error)
    finally:
        sys.settrace(before)
    found.runs += 1
    if not seen <= found.lines:
        found.lines |= seen
        found.corpus.append(data)


def changed(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One of them, changed in a few places."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randint(0, len(data))
        match rng.randrange(6):
            case 0:
                data[at:at] = rng.choice(WORDS)
            case 1:
                data[at : at + rng.randint(1, 8)] = rng.choice(WORDS)
            case 2:
                del data[at : at + rng.randint(1, 30)]
            case 3 if data:
                data[at % len(data)] = rng.randrange(256)
            case 4:
                data[at:at] = data[at : at + rng.randint(1, 60)]
            case _:
                other = rng.choice(corpus)
                cut = rng.randint(0, len(other))
                data[at:] = other[cut:]
    return bytes(data[:MOST_BYTES])
