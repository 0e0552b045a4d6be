"""Edits on their way, alike through every backend. In: edits, and a backend's two hands. Out: one EditResult each.

Read the jobs, make ready, send, insist where slurmctld says "not now", read again, judge. What was sent and not
answered is UNKNOWN: the next cycle finds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Edit, EditResult, Job, Outcome
from pal_slurm.slurm.edits.insist import insist
from pal_slurm.slurm.edits.judge import judge
from pal_slurm.slurm.edits.prepare import Ready, prepare_all, record_of
from pal_slurm.slurm.port import Capabilities


@dataclass(frozen=True, slots=True)
class Heard:
    """slurmctld's words about one update; none: it has nothing to say against it."""

    said: str
    answered: bool = True


class Hands(Protocol):
    """What a backend does by itself; either may raise SlurmUnavailable."""

    def able(self) -> tuple[Capabilities, bool]:
        """What this release can do, and whether disable_job_shrink is set."""

    def records(self, ids: Iterable[int]) -> Sequence[Job]:
        """All records of these jobs and arrays, as they are now."""

    def send(self, ready: Sequence[Ready]) -> Sequence[Heard]:
        """Write these, in order."""

    def now(self) -> float: ...


def apply(edits: Sequence[Edit], hands: Hands, at_once: int) -> list[EditResult]:
    """`at_once`: how many go into one batch, so that the read before it is never long ago."""
    results: list[EditResult] = []
    try:
        for first in range(0, len(edits), at_once):
            results += _batch(edits[first : first + at_once], hands)
    except _Lost as lost:
        results += lost.results
        said = f"nothing was written: {lost}"
    except SlurmUnavailable as error:
        said = f"nothing was written: {error}"
    # One batch that gets no answer is enough: the rest would cost a deadline each.
    return results + [EditResult(edit, Outcome.UNKNOWN, said) for edit in edits[len(results) :]]


class _Lost(Exception):
    """Edits were sent, and what became of them can't be told."""

    def __init__(self, why: SlurmUnavailable, results: list[EditResult]) -> None:
        super().__init__(str(why))
        self.results = results


def _batch(edits: Sequence[Edit], hands: Hands) -> list[EditResult]:
    caps, may_name_nodes = hands.able()
    stands = hands.records(edit.job for edit in edits)
    made = prepare_all(edits, stands, caps, may_name_nodes, hands.now())
    ready = sorted((item for item in made if isinstance(item, Ready)), key=lambda item: item.turn)
    if not ready:
        return [item for item in made if isinstance(item, EditResult)]
    heard: dict[int, Heard] = {}

    def send(some: Sequence[Ready]) -> None:
        heard.update(zip(map(id, some), hands.send(some), strict=True))

    try:
        insist(ready, send, lambda item: heard[id(item)].said)
        after = hands.records(home for item in ready for home in item.homes)
    except SlurmUnavailable as error:
        said = f"written, and can't be read again: {error}" if len(heard) == len(ready) else str(error)
        raise _Lost(error, [_unknown(m, said) if isinstance(m, Ready) else m for m in made]) from error
    now = hands.now()
    return [_verdict(m, heard[id(m)], after, now) if isinstance(m, Ready) else m for m in made]


def _unknown(ready: Ready, said: str) -> EditResult:
    return EditResult(ready.edit, Outcome.UNKNOWN, said)


def _verdict(ready: Ready, heard: Heard, after: Sequence[Job], now: float) -> EditResult:
    found = record_of(ready.before.id, ready.edit.task, after)
    result = judge(ready.edit, ready.asked, ready.before, found, heard.said, now)
    if not heard.answered and result.outcome is Outcome.REFUSED:
        return replace(result, outcome=Outcome.UNKNOWN, said="slurmctld gave no answer in time; it may still act on it")
    return result
