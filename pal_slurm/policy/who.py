"""Who runs, before anybody asks where. In: who comes, who ends, an order. Out: the jobs that should hold GPUs now.

For those who place anew what runs: any free GPUs will do for any job, so GPUs are counted. One rule serves both sides
of a comparison.
`none`: the longest head of the order that fits; the first that does not fit blocks all behind it (the artifact).
`holes`: every job of the order that still fits, from its head on; who runs in a hole is stopped for a job ahead.
`easy`: what runs, runs on; the head of the waiting line gets a reservation from the time limits, and a later job starts
only where that reservation stands.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable

from pal_slurm.policy.line import Blocks, InLine
from pal_slurm.policy.seams import Contender, Fill, Order, WhoRuns

Release = tuple[float, int, int]  # (at latest, job, GPUs)


def who_runs(fill: Fill, order: Order, n_gpus: int, *, changing: bool) -> WhoRuns:
    """`changing`: the order changes while jobs run."""
    if fill.reserves:
        return Bounded(order, n_gpus)
    return Heads(order, n_gpus, holes=not fill.strict, changing=changing)


class Heads:
    """`none` and `holes`: the order alone decides, each time anew; but who can't be stopped runs on."""

    def __init__(self, order: Order, n_gpus: int, *, holes: bool, changing: bool) -> None:
        self._order = order
        self._n_gpus = n_gpus
        self._holes = holes
        self._changing = changing
        self._here: dict[int, Contender] = {}  # in the order of arrival

    def arrive(self, here: Contender) -> None:
        self._here[here.job.id] = here

    def ended(self, here: Contender) -> None:
        del self._here[here.job.id]

    def choose(self, now: float) -> list[Contender]:
        chosen = [here for here in self._here.values() if here.fixed]
        room = self._n_gpus - sum(here.gpus for here in chosen)
        for here in self._in_order(now):
            if here.fixed:
                continue
            if here.gpus <= room:
                chosen.append(here)
                room -= here.gpus
            elif not self._holes:
                break
            if not room:
                break
        return chosen

    def _in_order(self, now: float) -> Iterable[Contender]:
        if not self._changing:
            return self._here.values()
        key = self._order.key
        return sorted(self._here.values(), key=lambda here: key(here.job, here.progress(now)))


class Bounded:
    """`easy`: nobody is stopped, and nobody ahead is delayed beyond what time limits promise."""

    def __init__(self, order: Order, n_gpus: int) -> None:
        self._order = order
        self._free = n_gpus
        self._sizes: dict[int, Blocks] = {}  # who waits
        self._here: dict[int, Contender] = {}
        self._running: dict[int, Contender] = {}
        self._releases: list[Release] = []
        self._release_of: dict[int, Release] = {}

    def arrive(self, here: Contender) -> None:
        self._here[here.job.id] = here
        if here.held:
            self._runs(here, here.until)
            return
        place = InLine(self._order.key(here.job, here.progress(0.0)), here.limit_s, here.job)
        if here.gpus in self._sizes:
            self._sizes[here.gpus].add(place)
        else:
            self._sizes[here.gpus] = Blocks([place])

    def ended(self, here: Contender) -> None:
        del self._here[here.job.id], self._running[here.job.id]
        self._free += here.gpus
        del self._releases[bisect_left(self._releases, self._release_of.pop(here.job.id))]

    def choose(self, now: float) -> list[Contender]:
        while (head := self._first()) is not None and self._gpus(head) <= self._free:
            self._start(head, now)
        if head is not None and min(self._sizes) <= self._free:
            self._fill(head, now)
        return list(self._running.values())

    def _first(self) -> InLine | None:
        return min(filter(None, (same.next((), math.inf) for same in self._sizes.values())), default=None)

    def _fill(self, head: InLine, now: float) -> None:
        at, spare = self.reserve(self._gpus(head), now)
        while (filler := self._filler(head, at - now, spare)) is not None:
            if filler.limit_s > at - now:
                spare -= self._gpus(filler)
            self._start(filler, now)

    def _filler(self, head: InLine, window_s: float, spare: int) -> InLine | None:
        """The first that fits and would end within the window, or leaves the head its GPUs."""
        found = (
            same.next(head.key, math.inf if gpus <= spare else window_s)
            for gpus, same in self._sizes.items()
            if gpus <= self._free
        )
        return min(filter(None, found), default=None)

    def reserve(self, need: int, now: float) -> tuple[float, int]:
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

    def _start(self, place: InLine, now: float) -> None:
        here = self._here[place.job.id]
        same = self._sizes[here.gpus]
        same.take(place.key)
        if same.empty:
            del self._sizes[here.gpus]
        self._runs(here, now + place.limit_s)

    def _runs(self, here: Contender, until: float) -> None:
        self._running[here.job.id] = here
        self._free -= here.gpus
        release = self._release_of[here.job.id] = (until, here.job.id, here.gpus)
        insort(self._releases, release)

    def _gpus(self, place: InLine) -> int:
        return self._here[place.job.id].gpus
