"""Nodes that small jobs leave to one that needs several GPUs of a node. In: who waits, what is free. Out: an Earmark.

A job that wants whole nodes, or several GPUs of one node, may wait beside more free GPUs than it needs, because small
jobs are scattered over all nodes and each of them takes the best GPU wherever it is. So the nodes that are nearest to
being free for it are earmarked: a job that needs fewer GPUs there takes others as long as it fits elsewhere, also where
these are slower. It never waits for that. Of several such jobs the first in the order counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import BoolArray
from pal_slurm.policy.line import Key
from pal_slurm.policy.needs import Need
from pal_slurm.policy.turn import Turn

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner

MOST_ODD = 100  # jobs that are looked at one by one


@dataclass(frozen=True, slots=True, eq=False)
class Earmark:
    need: Need
    rows: tuple[int, ...]
    mask: BoolArray  # (N,) the same
    gpus: int  # on each

    def steers(self, nodes: int, gpus: int) -> bool:
        """A job that takes so many GPUs of so many nodes."""
        return nodes == 1 and gpus < self.gpus


def same(one: Earmark | None, other: Earmark | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.rows, one.gpus) == (other.rows, other.gpus)


def earmark(planner: Planner) -> Earmark | None:
    """For this plan."""
    best: tuple[Key, Need, BoolArray] | None = None
    for need, key in (*_ours(planner), *_odd(planner)):
        nodes, gpus = need.ways[0][:2] if need.ways else (0, 0)
        if gpus < 2 or (best is not None and key >= best[0]):
            continue
        rows = _able(planner, need, nodes, gpus)
        if rows is not None:
            best = (key, need, rows)
    return None if best is None else _nearest(planner, *best[1:])


def _ours(planner: Planner) -> Iterator[tuple[Need, Key]]:
    """The first of each kind that does not decline what it was offered."""
    promised, now = planner.promised, planner.now
    for group in planner.queue.groups.values():
        for place in group.line:
            promise = promised.get(place.job.key)
            if promise is None or promise.until <= now:
                yield group.need, place.key
                break


def _odd(planner: Planner) -> Iterator[tuple[Need, Key]]:
    """Those whom Slurm itself starts."""
    for entry in islice(planner.queue.odd.values(), MOST_ODD):
        if entry.turn in (Turn.THEIRS, Turn.PLAIN) and entry.place.job.gpu_job and entry.place.job.array_id is None:
            yield planner.floor.needs.guess(entry.place.job), entry.place.key


def _able(planner: Planner, need: Need, nodes: int, gpus: int) -> BoolArray | None:
    """(N,) nodes that can hold a part of it, where there are others beside, and enough GPUs of theirs are free."""
    floor = planner.floor
    for area in need.areas:
        rows: BoolArray = floor.usable.sum(axis=1) >= gpus
        if area.mask is not None:
            rows &= area.mask
        if np.count_nonzero(rows) >= nodes and int(floor.n_free[rows].sum()) >= nodes * gpus:
            return rows if np.count_nonzero(floor.usable.any(axis=1)) > nodes else None
    return None


def _nearest(planner: Planner, need: Need, able: BoolArray) -> Earmark:
    """Those that will probably be free for it first."""
    nodes, gpus = need.ways[0][:2]
    ready = np.sort(planner.horizon.expected(), axis=1)[:, gpus - 1]
    order = np.lexsort((-planner.floor.n_free, ready, ~able))
    mask: BoolArray = np.zeros(len(able), dtype=np.bool_)
    mask[order[:nodes]] = True
    return Earmark(need, tuple(np.flatnonzero(mask).tolist()), mask, gpus)
