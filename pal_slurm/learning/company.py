"""Who had the same GPUs as a job, and when. In: pald's own records of who had parts of GPUs. Out: stretches sorted.

A stretch in which a job was alone tells of its GPUs; one that it spent beside the same other job from beginning to end
tells what that costs; one in which somebody came or went tells nothing. Who was there is pald's word, nobody's claim.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from pal_slurm.store import JobOutcome
from pal_slurm.words import digits

SLACK_S = 20.0  # pald sees an end with its next look, and nodes have clocks of their own


class Stretch(Protocol):
    @property
    def begun_at(self) -> float: ...
    @property
    def ended_at(self) -> float: ...


T = TypeVar("T", bound=Stretch)


class Sorted(Generic[T]):
    """Stretches of one job."""

    def __init__(self) -> None:
        self.alone: list[T] = []
        self.beside: list[tuple[T, JobOutcome]] = []
        self.neither: list[T] = []


class Company:
    """Of all jobs that had parts of GPUs in some time."""

    def __init__(self, sharers: Iterable[JobOutcome]) -> None:
        self._of: dict[int, list[JobOutcome]] = defaultdict(list)
        self._on: dict[tuple[str, int], list[JobOutcome]] = defaultdict(list)
        for one in sharers:
            self._of[one.job].append(one)
            for place in _places(one):
                self._on[place].append(one)

    @property
    def any(self) -> bool:
        return bool(self._of)

    def sort(self, job: str, stretches: Sequence[T]) -> Sorted[T]:
        """`job`: as Slurm prints it."""
        found: Sorted[T] = Sorted()
        mine = self._of.get(int(job), []) if digits(job) else []
        visits = dict.fromkeys(
            _Visit(other, max(run.start, other.start), min(_end(run), _end(other)))
            for run in mine
            for place in _places(run)
            for other in self._on[place]
            if other.job != run.job
        )
        for stretch in stretches:
            here = [visit for visit in visits if visit.seconds_of(stretch) > 0]
            if not here:
                found.alone.append(stretch)
            elif len(here) == 1 and here[0].covers(stretch):
                found.beside.append((stretch, here[0].other))
            else:
                found.neither.append(stretch)
        return found


class _Visit(NamedTuple):
    """Another job on the same GPUs, while both ran."""

    other: JobOutcome
    begun_at: float
    ended_at: float

    def seconds_of(self, stretch: Stretch) -> float:
        """What may be a clock's fault or a look's is none."""
        both = min(self.ended_at, stretch.ended_at) - max(self.begun_at, stretch.begun_at)
        return both - _slack(stretch)

    def covers(self, stretch: Stretch) -> bool:
        slack = _slack(stretch)
        return self.begun_at <= stretch.begun_at + slack and self.ended_at >= stretch.ended_at - slack


def _places(one: JobOutcome) -> Iterable[tuple[str, int]]:
    return ((node, gpu) for node, gpus in zip(one.nodes, one.gpus, strict=False) for gpu in gpus)


def _end(one: JobOutcome) -> float:
    return math.inf if one.end is None else one.end


def _slack(stretch: Stretch) -> float:
    return min(SLACK_S, 0.05 * (stretch.ended_at - stretch.begun_at))
