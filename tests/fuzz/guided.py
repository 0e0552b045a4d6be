"""Inputs that go new ways. In: a reader, inputs to begin with, seconds of CPU. Out: what it can't bear; a corpus.

Coverage-guided as libFuzzer is: an input that takes a way from line to line within pal_slurm which none took before
is kept, and changed further. Ways are told by coverage's own tracer, in C. Words to try come from the reader's own
sources. A reader may refuse with one of REFUSALS; anything else that leaves it is a fault, and so is one that thinks
for seconds.
"""

from __future__ import annotations

import ast
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from coverage.tracer import CFileDisposition, CTracer

from pal_slurm.errors import PalError
from pal_slurm.probe.errors import ProbeError
from tests.fuzz.script import BadScript

Reader = Callable[[bytes], object]
Ways = frozenset[tuple[str, int]]  # file, and two lines of it as coverage packs them
REFUSALS = (PalError, ProbeError, BadScript)
OURS = ("/pal_slurm/", "/palwork_lib/", "/tests/fuzz/script.py")
MOST_BYTES = 4096
LONGEST_WORD = 24
DEAR_S = 0.05  # of CPU
SLOW_S = 10.0  # of CPU, for a few kB
MORE_MEMORY = 4 << 30  # than there is; of addresses
WORDS = (
    b"", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b",", b"|", b"{", b"}", b"[", b"]", b'"', b":", b"=",
    b"-1", b"0", b"nan", b"inf", b"-inf", b"1e309", b"9" * 25, b"9" * 4500, b"1_0", b"0x1f", b"true", b"null", b"%",
    b"&a [*a]", b"2001-99-99", b"[" * 1200, "é٣\u202e".encode(), b"\x1b[2J", b"n[1-3]", b"n[1-99999999]", b"gpu:g1:1",
    b"2026-11-19T00:00:00", b" ", b"\t", b"\\", b"#", b"(IDX:0-1)", b";", b"- ", b"  ",
)  # fmt: skip
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")
_NUMBERS = (b"0", b"1", b"-1", b"2", b"65535", b"4294967295", b"18446744073709551615", b"1e308", b"0.5", b"7" * 4400)


class TooSlow(BaseException):
    pass


@dataclass
class Found:
    runs: int = 0
    ways: set[tuple[str, int]] = field(default_factory=set)
    corpus: list[bytes] = field(default_factory=list)
    dear: list[bytes] = field(
        default_factory=list
    )  # they go new ways and take their time: they are not changed further
    faults: dict[str, bytes] = field(default_factory=dict)  # what and where -> the first input


class Watched:
    """A reader, and which ways each input takes in it."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._tracer = reader, CTracer()
        self._tracer.should_trace, self._tracer.should_trace_cache = _asked, {}
        self._tracer.trace_arcs, self._tracer.file_tracers = True, {}
        self._tracer.lock_data = self._tracer.unlock_data = self._tracer.warn = lambda *_: None
        self._tracer.concur_id_func = self._tracer.switch_context = self._tracer.should_start_context = None
        self._tracer.check_include = self._tracer.disable_plugin = lambda *_: None

    def ways(self, data: bytes) -> tuple[Ways, BaseException | None]:
        """And what it can't bear."""
        fault, taken = None, dict[str, Any]()
        self._tracer.data = taken
        before = sys.gettrace()
        try:
            with _bounded():
                self._tracer.start()
                self._reader(data)
        except REFUSALS:
            pass
        except (Exception, TooSlow) as error:
            fault = error
        finally:
            self._tracer.stop()
            sys.settrace(before)
        return frozenset((file, way) for file, ways in taken.items() for way in ways), fault


def every(calls: Iterable[Callable[[], object]]) -> None:
    """Each, whatever the one before refused: readers that are given the same input."""
    for call in calls:
        with suppress(*REFUSALS):
            call()


def fuzz(reader: Reader, seeds: Sequence[bytes], cpu_s: float, seed: int = 0, found: Found | None = None) -> Found:
    """`found` is filled as it goes, for who breaks it off."""
    rng, found, watched = random.Random(seed), found or Found(), Watched(reader)
    with _little_memory():
        for data in seeds:
            _run(watched, data, found)
        words = (*WORDS, *told_in(frozenset(file for file, _ in found.ways)))
        end = time.process_time() + cpu_s
        while time.process_time() < end:
            _run(watched, changed(rng, found.corpus or seeds, words), found)
    return found


def _run(watched: Watched, data: bytes, found: Found) -> None:
    begun = time.process_time()
    ways, fault = watched.ways(data)
    found.runs += 1
    if fault is not None:
        found.faults.setdefault(_told(fault), data)
    elif not ways <= found.ways:
        found.ways |= ways
        (found.corpus if time.process_time() - begun < DEAR_S else found.dear).append(data)


def _told(error: BaseException) -> str:
    """What, and which line of ours it left."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if any(one in frame.filename for one in OURS)]
    where = f" in {ours[-1].filename.rpartition('/')[2]}, line {ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__}{where}"


def least(reader: Reader, inputs: Iterable[bytes], beside: Iterable[bytes] = ()) -> list[bytes]:
    """The fewest and shortest that take, with those `beside`, all ways that these take."""
    watched, taken, kept = Watched(reader), set[tuple[str, int]](), list[bytes]()
    for data in beside:
        taken |= watched.ways(data)[0]
    for data in sorted(set(inputs), key=lambda one: (len(one), one)):
        ways, _ = watched.ways(data)
        if new := ways - taken:
            short = _shorter(watched, data, new)
            taken |= watched.ways(short)[0]
            kept.append(short)
    return kept


def _shorter(watched: Watched, data: bytes, needed: Ways) -> bytes:
    """Without what these ways do not need; a few dozen tries."""
    size, finest = len(data) // 2, max(4, len(data) // 32)
    while size >= finest:
        at = 0
        while at < len(data):
            without = data[:at] + data[at + size :]
            if needed <= watched.ways(without)[0]:
                data = without
            else:
                at += size
        size //= 2
    return data


def changed(rng: random.Random, corpus: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """One of them, changed in a few places; those found last are chosen more often."""
    late = corpus[-max(8, len(corpus) // 8) :]
    data = bytearray(rng.choice(late if rng.random() < 0.5 else corpus))
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randint(0, len(data))
        match rng.randrange(9):
            case 0:
                data[at:at] = rng.choice(words)
            case 1:
                data[at : at + rng.randint(1, 8)] = rng.choice(words)
            case 2:
                del data[at : at + rng.randint(1, 30)]
            case 3 if data:
                data[at % len(data)] = rng.randrange(256)
            case 4:
                data[at:at] = data[at : at + rng.randint(1, 60)]
            case 5:
                if number := _NUMBER.search(data, at):
                    data[number.start() : number.end()] = rng.choice(_NUMBERS)
            case 6 | 7:
                _move_lines(rng, data, rng.choice(corpus))
            case _:
                other = rng.choice(corpus)
                data[at:] = other[rng.randint(0, len(other)) :]
    return bytes(data[:MOST_BYTES])


def _move_lines(rng: random.Random, data: bytearray, other: bytes) -> None:
    """A line is left out, doubled, or comes from another input."""
    lines, theirs = data.split(b"\n"), other.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randint(0, len(lines)), lines[at])
        case _:
            lines.insert(at, bytearray(rng.choice(theirs)))
    data[:] = b"\n".join(lines)


@cache
def told_in(files: frozenset[str]) -> tuple[bytes, ...]:
    """Short texts and names of fields in these sources: keys, and what they may be."""
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return tuple(sorted(word.encode() for word in found if 0 < len(word) <= LONGEST_WORD))


def _asked(file: str, frame: FrameType) -> CFileDisposition:
    """Whether coverage's tracer is to follow a file."""
    said = CFileDisposition()
    said.original_filename = said.canonical_filename = said.source_filename = file
    said.trace, said.reason = any(ours in file for ours in OURS), ""
    said.file_tracer, said.has_dynamic_filename = None, False
    return said


@contextmanager
def _little_memory() -> Iterator[None]:
    """MemoryError for a reader that wants gigabytes for a few kB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    there = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    if hard == resource.RLIM_INFINITY or there + MORE_MEMORY < hard:
        resource.setrlimit(resource.RLIMIT_AS, (there + MORE_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _bounded() -> Iterator[None]:
    """TooSlow after SLOW_S of CPU, so that a reader without an end is found."""

    def over(*_: object) -> None:
        raise TooSlow(f"{SLOW_S:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, SLOW_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
