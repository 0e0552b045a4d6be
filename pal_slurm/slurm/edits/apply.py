"""Edits on their way, alike through every backend. In: edits, and a backend's two hands. Out: one EditResult each.

Read the jobs, make ready, send, insist where slurmctld says "not now", read again, judge. What was sent and not
answered is UNKNOWN: the next cycle finds out. What was not sent, because the writer's time was over, is LATE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import LATE, Edit, EditResult, Job, Outcome
from pal_slurm.slurm.edits.insist import insist
from pal_slurm.slurm.edits.judge import judge
from pal_slurm.slurm.edits.prepare import Ready, by_id, prepare_all, record_of
from pal_slurm.slurm.port import Capabilities, Left, Series


@dataclass(frozen=True, slots=True)
class Heard:
    """slurmctld's words about one update; none: it has nothing to say against it."""

    said: str
    answered: bool = True
    sent: bool = True


UNSENT = Heard("", answered=False, sent=False)  # no time was left


class Hands(Protocol):
    """What a backend does by itself; either may raise SlurmUnavailable."""

    def able(self) -> tuple[Capabilities, bool]:
        """What this release can do, and whether disable_job_shrink is set."""

    def records(self, ids: Iterable[int]) -> Sequence[Job]:
        """All records of these jobs and arrays, as they are now."""

    def send(self, ready: Sequence[Ready], left_s: Left) -> Sequence[Heard]:
        """Write these, in order, as far as the time reaches."""

    def now(self) -> float: ...


def apply(
    edits: Sequence[Edit], hands: Hands, at_once: int, left_s: Left, series: Series | None = None
) -> list[EditResult]:
    """`at_once`: how many go into one batch, so that the read before it is never long ago."""
    results: list[EditResult] = []
    series = series or Series()
    coming = series.coming
    try:
        for first in range(0, len(edits), at_once):
            series.coming = edits[first + at_once : first + 2 * at_once] or coming
            results += _batch(edits[first : first + at_once], series, hands, left_s)
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


def _batch(edits: Sequence[Edit], series: Series, hands: Hands, left_s: Left) -> list[EditResult]:
    stands = series.take(edits, hands.now())
    if left_s() <= 0:
        return [EditResult(edit, Outcome.REFUSED, LATE) for edit in edits]
    caps, may_name_nodes = hands.able()
    if stands is None:
        stands = hands.records(edit.job for edit in edits)
    made = prepare_all(edits, by_id(stands), caps, may_name_nodes, hands.now())
    ready = sorted((item for item in made if isinstance(item, Ready)), key=lambda item: item.turn)
    if not ready:
        return [item for item in made if isinstance(item, EditResult)]
    heard: dict[int, Heard] = {}

    def send(some: Sequence[Ready]) -> None:
        for item, said in zip(some, hands.send(some, left_s), strict=True):
            if said.sent or id(item) not in heard:
                heard[id(item)] = said

    try:
        insist(ready, send, lambda item: heard[id(item)].said)
        sent = [item for item in ready if heard[id(item)].sent]
        homes = [home for item in sent for home in item.homes]
        after = hands.records([*homes, *(edit.job for edit in series.coming)]) if sent else ()
    except SlurmUnavailable as error:
        said = f"written, and can't be read again: {error}" if len(heard) == len(ready) else str(error)
        raise _Lost(error, [_unknown(m, heard.get(id(m)), said) for m in made]) from error
    now, found = hands.now(), by_id(after)
    if sent:
        series.leave(after, now)
    return [_verdict(m, heard[id(m)], found, now) if isinstance(m, Ready) else m for m in made]


def _unknown(made: Ready | EditResult, heard: Heard | None, said: str) -> EditResult:
    if isinstance(made, EditResult):
        return made
    if heard is not None and not heard.sent:
        return _late(made)
    return EditResult(made.edit, Outcome.UNKNOWN, said)


def _late(ready: Ready) -> EditResult:
    return EditResult(ready.edit, Outcome.REFUSED, LATE, ready.before)


def _verdict(ready: Ready, heard: Heard, after: Mapping[int, Job], now: float) -> EditResult:
    if not heard.sent:
        return _late(ready)
    found = record_of(ready.before.id, ready.edit.task, after)
    result = judge(ready.edit, ready.asked, ready.before, found, heard.said, now)
    if not heard.answered and result.outcome is Outcome.REFUSED:
        return replace(result, outcome=Outcome.UNKNOWN, said="slurmctld gave no answer in time; it may still act on it")
    return result
