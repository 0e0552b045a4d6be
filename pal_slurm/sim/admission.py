"""Who runs, before anybody asks where. In: arrivals, ends and an order. Out: the jobs that should hold GPUs now.

One rule serves both sides of a comparison. It counts GPUs only: any free GPUs will do for any job.
`none`: the longest head of the order that fits; the first that does not fit blocks all behind it (the artifact).
`holes`: every job of the order that still fits, from its head on; who runs in a hole is stopped for a job ahead.
`easy`: what runs, runs on; the head of the waiting line gets a reservation from the time limits, and a later job starts
only where that reservation stands.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Protocol

from pal_slurm.errors import ConfigError
from pal_slurm.policy.seams import Order, Progress
from pal_slurm.sim.engine import Run
from pal_slurm.sim.line import Line, Place

Release = tuple[float, int, int]  # (at latest, job, GPUs)
FILLS = ("none", "easy", "holes")


class Admission(Protocol):
    def arrive(self, run: Run) -> None: ...
    def ended(self, run: Run) -> None: ...
    def choose(self, now: float) -> list[Run]:
        """All that should run now, in the order; the others that run are to be stopped."""


def admission(fill: str, order: Order, n_gpus: int, *, moving: bool) -> Admission:
    """`moving`: the order changes while jobs run (las, srtf)."""
    if fill == "easy":
        return Bounded(order, n_gpus)
    if fill not in FILLS:
        raise ConfigError(f"There is no fill {fill!r}; choose one of {', '.join(FILLS)}.")
    return Heads(order, n_gpus, holes=fill == "holes", moving=moving)


def progress_of(run: Run, now: float) -> Progress:
    """As the artifact counts: seconds with GPUs, and ideal run time less those."""
    attained = run.attained_at(now)
    return Progress(attained, run.work.ideal_s() - attained)


class Heads:
    """`none` and `holes`: the order alone decides, each time anew."""

    def __init__(self, order: Order, n_gpus: int, *, holes: bool, moving: bool) -> None:
        self._order = order
        self._n_gpus = n_gpus
        self._holes = holes
        self._moving = moving
        self._runs: dict[int, Run] = {}  # by submission

    def arrive(self, run: Run) -> None:
        self._runs[run.work.id] = run

    def ended(self, run: Run) -> None:
        del self._runs[run.work.id]

    def choose(self, now: float) -> list[Run]:
        chosen: list[Run] = []
        room = self._n_gpus
        for run in self._in_order(now):
            if run.work.gpus <= room:
                chosen.append(run)
                room -= run.work.gpus
            elif not self._holes:
                break
            if not room:
                break
        return chosen

    def _in_order(self, now: float) -> Iterable[Run]:
        if not self._moving:
            return self._runs.values()
        key = self._order.key
        return sorted(self._runs.values(), key=lambda run: key(run.job, progress_of(run, now)))


class Bounded:
    """`easy`: nobody is stopped, and nobody ahead is delayed beyond what time limits promise."""

    def __init__(self, order: Order, n_gpus: int) -> None:
        self._order = order
        self._free = n_gpus
        self._line = Line()
        self._running: dict[int, Run] = {}
        self._releases: list[Release] = []
        self._release_of: dict[int, Release] = {}

    def arrive(self, run: Run) -> None:
        limit_s = math.inf if run.work.limit_s is None else run.work.limit_s
        self._line.add(self._order.key(run.job, progress_of(run, 0.0)), limit_s, run)

    def ended(self, run: Run) -> None:
        del self._running[run.work.id]
        self._free += run.work.gpus
        del self._releases[bisect_left(self._releases, self._release_of.pop(run.work.id))]

    def choose(self, now: float) -> list[Run]:
        head = self._line.head()
        while head is not None and head.run.work.gpus <= self._free:
            self._start(head, now)
            head = self._line.head()
        if head is not None and self._line.smallest() <= self._free:
            self._fill(head, now)
        return list(self._running.values())

    def _fill(self, head: Place, now: float) -> None:
        at, spare = self._reserve(head.run.work.gpus, now)
        fillers = self._line.fillers(head.key, at - now)
        while (filler := fillers.next(self._free, spare)) is not None:
            if filler.limit_s > at - now:
                spare -= filler.run.work.gpus
            self._start(filler, now)

    def _reserve(self, need: int, now: float) -> tuple[float, int]:
        """When the head fits if all use their whole limits, and how many GPUs it leaves then."""
        count = self._free
        at = math.inf
        for release_at, _, gpus in self._releases:
            if release_at > at:
                break
            count += gpus
            if count >= need:
                at = release_at
        return (max(at, now), count - need) if at < math.inf else (at, 0)

    def _start(self, place: Place, now: float) -> None:
        run = place.run
        self._line.remove(place)
        self._running[run.work.id] = run
        self._free -= run.work.gpus
        release = self._release_of[run.work.id] = (now + place.limit_s, run.work.id, run.work.gpus)
        insort(self._releases, release)
