"""The waiting line, indexed. In: jobs with a sort key and a time limit. Out: who of each kind is next to be asked.

Thousands of waiting jobs are of a few kinds. Of a kind for which nothing is free nobody need be looked at, and of those
that may only fill a hole only the short ones: so neither an arrival nor an end costs a look at a long queue. Who has
declined an offer is asked again when there is a better one for its kind, or when its patience has ended.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from heapq import heappop, heappush
from math import inf
from operator import itemgetter
from typing import NamedTuple

from pal_slurm.model import App, Job, Reason
from pal_slurm.policy.needs import Need
from pal_slurm.policy.turn import Turn

Key = tuple[float, ...]
FIRST, LIMIT = itemgetter(0), itemgetter(1)
SIZE = 64  # of a block


class InLine(NamedTuple):
    """One waiting job."""

    key: Key  # unique: every order ends with the job id
    limit_s: float
    job: Job


class TurnedDown(NamedTuple):
    place: InLine
    slowdown: float  # of the offer that it declined: no slower one is taken
    reason: Reason
    until: float  # it gives in then


class Waiting(NamedTuple):
    """A job that waits, and where it stands in the line."""

    place: InLine
    app: App
    group: Group | None  # None: looked at one by one
    turn: Turn
    reason: Reason


class Blocks:
    """Places in the order, in blocks that know their shortest limit: who may fill a hole is found quickly."""

    def __init__(self, places: list[InLine]) -> None:
        self._blocks = [places[at : at + SIZE] for at in range(0, len(places), SIZE)]
        self._first = [block[0].key for block in self._blocks]
        self._shortest = [min(map(LIMIT, block)) for block in self._blocks]

    def add(self, place: InLine) -> None:
        at = max(0, bisect_right(self._first, place.key) - 1)
        if not self._blocks or (len(self._blocks[at]) >= SIZE and place.key > self._blocks[at][-1].key):
            at += bool(self._blocks)
            self._blocks.insert(at, [])
            self._first.insert(at, place.key)
            self._shortest.insert(at, inf)
        _add(self._blocks[at], place)
        self._first[at] = self._blocks[at][0].key
        self._shortest[at] = min(self._shortest[at], place.limit_s)

    def take(self, key: Key) -> None:
        at = bisect_right(self._first, key) - 1
        block = self._blocks[at]
        place = _take(block, key)
        if not block:
            del self._blocks[at], self._first[at], self._shortest[at]
            return
        self._first[at] = block[0].key
        if place.limit_s == self._shortest[at]:
            self._shortest[at] = min(map(LIMIT, block))

    @property
    def empty(self) -> bool:
        return not self._blocks

    def next(self, after: Key, within_s: float) -> InLine | None:
        """The first behind `after` whose limit is not above that."""
        at = max(0, bisect_right(self._first, after) - 1)
        shortest = self._shortest[at:] if at else self._shortest
        for i, limit_s in enumerate(shortest, at):
            if limit_s <= within_s:
                for place in self._blocks[i]:
                    if place.limit_s <= within_s and place.key > after:
                        return place
        return None


class Group:
    """Waiting jobs of one kind and one application."""

    def __init__(self, number: int, need: Need, app: App, partitions: tuple[str, ...]) -> None:
        self.number, self.need, self.app, self.partitions = number, need, app, partitions
        self.gpus = need.gpus
        self.line: list[InLine] = []  # all of them, in the order
        self.refused: dict[Key, TurnedDown] = {}
        self._asked: Blocks | None = None  # all but those, once it is needed
        self._slowest: list[tuple[float, Key]] = []  # heaps of refusals; may hold some that stand no more
        self._soonest: list[tuple[float, Key]] = []

    def add(self, place: InLine) -> None:
        _add(self.line, place)
        if self._asked is not None:
            self._asked.add(place)

    def remove(self, key: Key) -> None:
        _take(self.line, key)
        if self.refused.pop(key, None) is None and self._asked is not None:
            self._asked.take(key)

    def next(self, after: Key, within_s: float = inf) -> InLine | None:
        """The first behind `after` who has not declined, and whose limit is not above that."""
        if self._asked is None:
            if within_s == inf:
                return self.first(after)
            self._asked = Blocks(self.line)
        return self._asked.next(after, within_s)

    def first(self, after: Key) -> InLine | None:
        """Of all."""
        line = self.line
        if line and line[0].key > after:
            return line[0]
        at = bisect_right(line, after, key=FIRST)
        return line[at] if at < len(line) else None

    def refuse(self, refusal: TurnedDown) -> None:
        key = refusal.place.key
        if self._asked is None:
            self._asked = Blocks(self.line)
        self._asked.take(key)
        self.refused[key] = refusal
        heappush(self._slowest, (-refusal.slowdown, key))
        heappush(self._soonest, (refusal.until, key))

    def ask_again(self, now: float, slowdown: float) -> None:
        """Those for whom an offer of that slowdown is a better one, or whose patience has ended."""
        while self._slowest and -self._slowest[0][0] > slowdown:
            self._again(*heappop(self._slowest), late=False)
        while self._soonest and self._soonest[0][0] <= now:
            self._again(*heappop(self._soonest), late=True)

    def ask_all(self) -> None:
        for refusal in self.refused.values():
            self._open(refusal.place)
        self.refused.clear()

    def _again(self, value: float, key: Key, *, late: bool) -> None:
        refusal = self.refused.get(key)
        if refusal is not None and value == (refusal.until if late else -refusal.slowdown):
            del self.refused[key]
            self._open(refusal.place)

    def _open(self, place: InLine) -> None:
        if self._asked is not None:
            self._asked.add(place)

    def wake_at(self, now: float) -> float:
        """When the next of those who declined gives in."""
        while self._soonest:
            until, key = self._soonest[0]
            refusal = self.refused.get(key)
            if until > now and refusal is not None and refusal.until == until:
                return until
            self._again(*heappop(self._soonest), late=True)
        return inf


def _add(places: list[InLine], place: InLine) -> None:
    if not places or places[-1].key < place.key:  # a plain arrival
        places.append(place)
    else:
        insort(places, place, key=FIRST)


def _take(places: list[InLine], key: Key) -> InLine:
    if places[0].key == key:
        return places.pop(0)
    return places.pop(bisect_left(places, key, key=FIRST))
