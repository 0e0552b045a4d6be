"""Whose turn comes in one plan. In: kinds of waiting jobs, jobs that stand for themselves. Out: one after the other.

Each kind stands here once, with the key of the job of it that comes next. Of the kinds that are too large for what is
free at all only the first of each queue is there: room is kept for it, and nobody else of them need be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from heapq import heapify, heappop, heappush, heapreplace

from pal_slurm.policy.line import Group, InLine, Key, Waiting


class Agenda:
    def __init__(self, single: Iterable[Waiting]) -> None:
        self._heap: list[tuple[Key, int, Group | Waiting]] = [(entry.place.key, -1, entry) for entry in single]
        self._due: dict[Group, Key] = {}  # with which of its entries there a kind comes next; older ones are void
        self._behind: list[Group] = []  # kinds that are left out as long as room is kept for another
        heapify(self._heap)

    def line_up(self, groups: Iterable[Group], free: float, *, heads: bool) -> None:
        """Those that may have room, and the first of each queue that have none, if room is kept for such `heads`."""
        due = self._due
        first: dict[tuple[str, ...], Group] = {}
        for group in groups:
            if group.gpus <= free:
                due[group] = group.line[0].key
                continue
            head = first.get(group.partitions)
            if head is not None:
                self._behind.append(group if head.line[0].key < group.line[0].key else head)
            if head is None or head is self._behind[-1]:
                first[group.partitions] = group
        if heads:
            due.update((head, head.line[0].key) for head in first.values())
        self._heap += [(key, group.number, group) for group, key in due.items()]
        heapify(self._heap)

    def bring_in(self) -> None:
        """One for whom room would have been kept has none, ever: it is kept for one of another kind."""
        for group in self._behind:
            self._put(group, group.line[0].key)
        self._behind.clear()

    def look_again(self, groups: Iterable[Group], but: Container[Group], at: Key) -> None:
        """Those behind `at` who declined: what they are offered may be better now."""
        for group in groups:
            if not group.refused or group in but or (first := group.first(at)) is None:
                continue
            if group not in self._due or first.key < self._due[group]:
                self._put(group, first.key)

    def next(self, candidate: Callable[[Group], InLine | None]) -> tuple[InLine, Group | Waiting] | None:
        """Who comes now; `candidate` tells who of a kind, None: nobody any more."""
        heap, due = self._heap, self._due
        while heap:
            key, number, which = heap[0]
            if not isinstance(which, Group):
                heappop(heap)
                return which.place, which
            if due.get(which) != key:
                heappop(heap)
                continue
            place = candidate(which)
            if place is None:
                heappop(heap)
                del due[which]
            elif place.key != key:
                heapreplace(heap, (place.key, number, which))
                due[which] = place.key
            else:
                return place, which
        return None

    def _put(self, group: Group, key: Key) -> None:
        heappush(self._heap, (key, group.number, group))
        self._due[group] = key
