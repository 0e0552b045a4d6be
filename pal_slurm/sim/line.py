"""The waiting line, indexed. In: jobs with a sort key, a size and a time limit. Out: who is next, who fills a hole.

One sorted list per size, so that neither an arrival nor an end costs a scan of a long queue.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from itertools import islice
from math import inf
from typing import NamedTuple

from pal_slurm.sim.engine import Run

Key = tuple[float, ...]
DEPTH = 100  # jobs per size that are looked at for filling a hole; Slurm bounds its backfill too (bf_max_job_test)


class Place(NamedTuple):
    """One waiting job."""

    key: Key  # unique: every order ends with the job id
    limit_s: float
    run: Run


class Fillers:
    """Those behind the head who may fill a hole, in the order. Who was passed over once is not looked at again."""

    def __init__(self, line: Line, behind: Key, window_s: float, but: Collection[Key]) -> None:
        """`but`: who is not to be asked; it may grow."""
        self._line = line
        self._behind = behind
        self._window_s = window_s
        self._but = but
        self._at: dict[int, int] = {}  # per size, how many of it were passed over

    def next(self, free: int, extra: int, barred: Collection[int] = ()) -> Place | None:
        """The first that fits and would end within the window, or leaves the head its GPUs; neither number may grow."""
        best: Place | None = None
        for size in self._line.sizes():
            if size > free or size in barred:
                continue
            short = size > extra
            if short and self._line.least_limit(size) > self._window_s:
                continue
            same, at = self._line.of_size(size), self._at.get(size, 0)
            for place in islice(same, at, DEPTH):
                if best is not None and place.key > best.key:
                    break
                fits = not short or place.limit_s <= self._window_s
                if fits and place.key > self._behind and place.key not in self._but:
                    best = place
                    break
                at += 1
            self._at[size] = at
        return best


class Line:
    """Waiting jobs by size, each size in the order's own order."""

    def __init__(self) -> None:
        self._sizes: dict[int, list[Place]] = {}
        self._limits: dict[int, list[tuple[float, Key]]] = {}  # heaps; may hold some who have left
        self._here: set[Key] = set()

    def add(self, key: Key, limit_s: float, run: Run) -> None:
        same = self._sizes.setdefault(run.work.gpus, [])
        self._here.add(key)
        heappush(self._limits.setdefault(run.work.gpus, []), (limit_s, key))
        place = Place(key, limit_s, run)
        if not same or same[-1].key < key:  # a plain arrival
            same.append(place)
        else:
            same.insert(bisect_left(same, key, key=_key), place)

    def remove(self, place: Place) -> None:
        size = place.run.work.gpus
        same = self._sizes[size]
        self._here.discard(place.key)
        if same[0] is place:
            del same[0]
        else:
            del same[bisect_left(same, place.key, key=_key)]
        if not same:
            del self._sizes[size]

    def head(self, but: Collection[Key] = ()) -> Place | None:
        """The first in the order, but for some."""
        best: Place | None = None
        for same in self._sizes.values():
            place: Place | None = same[0]
            if but and same[0].key in but:
                place = next((p for p in same if p.key not in but), None)
            if place is not None and (best is None or place.key < best.key):
                best = place
        return best

    def smallest(self) -> float:
        """Fewest GPUs that anyone in the line asks for."""
        return min(self._sizes, default=inf)

    def fillers(self, behind: Key, window_s: float, but: Collection[Key] = ()) -> Fillers:
        return Fillers(self, behind, window_s, but)

    def of_size(self, size: int) -> list[Place]:
        return self._sizes.get(size, [])

    def sizes(self) -> Iterable[int]:
        return self._sizes

    def least_limit(self, size: int) -> float:
        """The shortest time limit among those of a size; spares the search for one that is short enough."""
        heap = self._limits[size]
        while heap[0][1] not in self._here:
            heappop(heap)
        return heap[0][0]


def _key(place: Place) -> Key:
    return place.key
