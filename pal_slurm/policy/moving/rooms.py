"""Room for a job that waits: who goes elsewhere so that it fits. In: running movers, a floor. Out: the cheapest moves.

Each of them goes to GPUs that are free now, so none waits for another one. A room costs the GPU time that its moves
lose, and what the movers run slower or faster where they go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from pal_slurm.model import Placement, flat
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.needs import Area, Need
from pal_slurm.policy.seams import Placer

if TYPE_CHECKING:
    from pal_slurm.policy.moving.models import Between
    from pal_slurm.policy.moving.value import RunsNow

Way = tuple[int, int, int, int]  # nodes; GPUs, CPUs, MB on each


@dataclass(frozen=True, slots=True)
class Room:
    moves: tuple[tuple[RunsNow, Placement, float], ...]  # who, where to, seconds per step there
    price: float  # GPU seconds


class Rooms:
    """What those who run could make room for."""

    def __init__(
        self, floor: Floor, placer: Placer, between: Between, margin: float, standing: Sequence[RunsNow]
    ) -> None:
        self._floor, self._placer, self._between, self._margin = floor, placer, between, margin
        self._on: dict[int, list[RunsNow]] = defaultdict(list)  # by row
        for s in standing:
            if len(s.job.nodes) == 1:
                self._on[floor.cluster.node_index[s.job.nodes[0]]].append(s)

    def best(self, need: Need, most: int, worth: float) -> Room | None:
        """With so many moves at most, and cheaper than that."""
        found = [room for way in need.ways for area in need.areas for room in self._rooms(way, area, most, worth)]
        return min(found, key=lambda room: room.price, default=None)

    def _rooms(self, way: Way, area: Area, most: int, worth: float) -> Iterator[Room]:
        nodes, gpus = way[:2]
        floor = self._floor
        if floor.total() < nodes * gpus:
            return
        able = floor.usable.sum(axis=1) >= gpus if area.mask is None else area.mask & (floor.usable.sum(axis=1) >= gpus)
        rows = []
        for row in able.nonzero()[0].tolist():
            free = int(floor.n_free[row])
            if free < gpus and row not in self._on:
                continue
            if (who := self._cheapest(row, gpus - free)) is not None:
                rows.append((sum(map(self._cost, who)), -free, row, who))
        chosen = sorted(rows, key=lambda found: found[:3])[:nodes]
        who = [s for *_, of_row in chosen for s in of_row]
        if len(chosen) == nodes and 0 < len(who) <= most:
            room = self._tried([row for _, _, row, _ in chosen], who, way)
            if room is not None and room.price < worth:
                yield room

    def _cost(self, s: RunsNow) -> float:
        return self._margin * s.mover.to_free_s * len(s.gpus)

    def _cheapest(self, row: int, short: int) -> list[RunsNow] | None:
        """Those of a node whose going costs least and leaves so many GPUs more."""
        best: dict[int, tuple[float, list[RunsNow]]] = {0: (0.0, [])}  # by GPUs
        for s in self._on[row] if short > 0 else ():
            for got, (cost, who) in list(best.items()):
                more, price = min(short, got + len(s.gpus)), cost + self._cost(s)
                if price < best.get(more, (inf,))[0]:
                    best[more] = (price, [*who, s])
        return best[max(short, 0)][1] if max(short, 0) in best else None

    def _tried(self, rows: Sequence[int], who: Sequence[RunsNow], way: Way) -> Room | None:
        """Where they would go, if none of them stays on these nodes."""
        floor, cluster = self._floor, self._floor.cluster
        _, gpus, cpus, mem_mb = way
        back = floor.saved()
        try:
            for s in who:
                floor.give(s.job, Placement(s.job.nodes, s.job.gpus, exact=False))
            if any(floor.n_free[row] < gpus or not floor.has_room(row, gpus, cpus, mem_mb) for row in rows):
                return None
            names = tuple(cluster.node_names[row] for row in rows)
            left = tuple(tuple(floor.free[row].nonzero()[0].tolist()) for row in rows)
            floor.hold(who[0].job, Placement(names, left, exact=False))
            moves, price = [], 0.0
            for s in sorted(who, key=lambda s: -len(s.gpus)):
                where = self._placer.place(s.job, s.app, floor)
                if where is None:
                    return None
                there = flat(where, cluster)
                if not self._between.may_go(s, there):
                    return None
                floor.take(s.job, where)
                step = self._between.step(s, there)
                moves.append((s, where, step))
                price += self._cost(s) - len(there) * s.gain(step)
            return Room(tuple(moves), price)
        finally:
            back()
