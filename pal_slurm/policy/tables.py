"""Nodes ranked for one class and one number of GPUs. In: the floor's free GPUs. Out: integer keys; least is best.

A key packs, from the top: the rank of the worst GPU that the job would get there (the bin's value: step time), the
summed worth of the GPUs (scarcity), and the GPUs that would be left over (packing). Equal keys go to the lowest node.
Only nodes that changed since the last look are computed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.policy.merit import Merit

if TYPE_CHECKING:
    from pal_slurm.policy.floor import Floor

Key = NDArray[np.int64]
Pricing = Callable[["Floor", Key, "IntArray | slice"], FloatArray]
LEFT_BITS = 6  # fewer than 64 slots on a node
WORTH_BITS = 18
RANK_SHIFT = LEFT_BITS + WORTH_BITS
NEVER = np.iinfo(np.int64).max
NO_RANK = np.int32(np.iinfo(np.int32).max)
MOST_SETS = 1000  # choices of slots tried for a job on several nodes; 8-GPU nodes have at most 70


class _Table:
    """Follows the floor's list of changed rows."""

    def __init__(self) -> None:
        self._seen = -1

    def stale_rows(self, floor: Floor) -> IntArray | slice | None:
        """Rows to compute anew: all at first or when most changed; None: up to date."""
        seen, self._seen = self._seen, len(floor.changed)
        if seen == self._seen:
            return None
        if seen < 0 or self._seen - seen > floor.cluster.n_nodes:
            return slice(None)
        return np.array(list(set(floor.changed[seen:])), dtype=np.intp)


class NodeTable(_Table):
    """For a job on one node: `key[n]` is NEVER where it does not fit."""

    def __init__(self, merit: Merit, gpus: int, allowed: BoolArray | None, lowest: bool, n_nodes: int) -> None:
        super().__init__()
        self.key: Key = np.full(n_nodes, NEVER, dtype=np.int64)
        self._merit = merit
        self._gpus = gpus
        self._allowed = allowed  # (N, S) GPUs of the models wanted
        self._lowest = lowest  # Slurm takes the lowest free devices: no choice within a node
        self._price: FloatArray | None = None
        self._unpriced: IntArray | slice | None = None  # rows whose key is newer than their price

    def price(self, floor: Floor, pricing: Pricing) -> FloatArray:
        """(N,) what `pricing` makes of each key, infinity where the job does not fit; kept like the keys."""
        rows = self._unpriced if self._price is not None else slice(None)
        if self._price is None:
            self._price = np.full(len(self.key), np.inf)
        if rows is not None:
            key = self.key[rows]
            fits = key != NEVER
            self._price[rows] = np.where(fits, pricing(floor, np.where(fits, key, 0), rows), np.inf)
            self._unpriced = None
        return self._price

    def refresh(self, floor: Floor) -> None:
        rows = self.stale_rows(floor)
        if rows is None:
            return
        free, k = floor.free[rows], self._gpus
        if self._lowest:
            free = free & (np.cumsum(free, axis=1) <= k)
        open_ = free if self._allowed is None else free & self._allowed[rows]
        rank = np.where(open_, self._merit.rank[rows], NO_RANK)
        worst = np.sort(rank, axis=1)[:, k - 1]
        worth = np.where(rank <= worst[:, None], self._merit.worth[rows], 1 << (WORTH_BITS - 1))
        worth.sort(axis=1)
        key = worst.astype(np.int64) << RANK_SHIFT
        key |= worth[:, :k].sum(axis=1) << LEFT_BITS
        key |= floor.n_free[rows] - k
        key[worst == NO_RANK] = NEVER
        self.key[rows] = key
        self._unpriced = rows if self._unpriced is None else slice(None)

    def slots(self, floor: Floor, row: int) -> tuple[int, ...]:
        """The GPUs that the key of this node stands for; among equals the lowest slots."""
        free = floor.free[row].nonzero()[0].tolist()
        if self._lowest:
            return tuple(free[: self._gpus])
        if self._allowed is not None:
            free = [s for s in free if self._allowed[row, s]]
        rank, worth = self._merit.rank[row].tolist(), self._merit.worth[row].tolist()
        worst = sorted(rank[s] for s in free)[self._gpus - 1]
        fine = sorted((worth[s], s) for s in free if rank[s] <= worst)
        return tuple(sorted(s for _, s in fine[: self._gpus]))


class SetTable(_Table):
    """For a job on several nodes: per choice of slots (the same on each node) and node, the worst rank and the worth.

    The last choice is "whatever is lowest": each node gives its lowest free devices, which is what Slurm does with a
    pin that names no slots.
    """

    def __init__(self, merit: Merit, gpus: int, allowed: BoolArray | None, sets: IntArray, n_nodes: int) -> None:
        super().__init__()
        self.rank: IntArray = np.full((len(sets) + 1, n_nodes), NO_RANK, dtype=np.int32)
        self.cost: Key = np.zeros((len(sets) + 1, n_nodes), dtype=np.int64)  # worth, then GPUs left over
        self.sets = sets  # (C, k)
        self._merit = merit
        self._gpus = gpus
        self._allowed = allowed

    def refresh(self, floor: Floor) -> None:
        rows = self.stale_rows(floor)
        if rows is None:
            return
        free, k, n = floor.free[rows], self._gpus, len(self.sets)
        open_ = free if self._allowed is None else free & self._allowed[rows]
        rank = np.where(open_, self._merit.rank[rows], NO_RANK)
        worth = self._merit.worth[rows].astype(np.int64)
        left = floor.n_free[rows].astype(np.int64) - k
        if n:
            self.rank[:n, rows] = rank[:, self.sets].max(axis=2).T
            self.cost[:n, rows] = (worth[:, self.sets].sum(axis=2) << LEFT_BITS).T
        lowest = free & (np.cumsum(free, axis=1) <= k)
        self.rank[n, rows] = np.where(left < 0, NO_RANK, np.where(lowest, rank, 0).max(axis=1))
        self.cost[n, rows] = np.where(lowest, worth, 0).sum(axis=1) << LEFT_BITS
        self.cost[:, rows] |= np.maximum(left, 0)

    def slots(self, floor: Floor, choice: int, row: int) -> tuple[int, ...]:
        if choice < len(self.sets):
            return tuple(self.sets[choice].tolist())
        return tuple(floor.free[row].nonzero()[0][: self._gpus].tolist())


def node_table(floor: Floor, merit: Merit, gpus: int, models: frozenset[int] | None) -> NodeTable:
    cluster = floor.cluster
    return NodeTable(merit, gpus, _allowed(floor, models), not cluster.slots, cluster.n_nodes)


def set_table(floor: Floor, merit: Merit, gpus: int, models: frozenset[int] | None) -> SetTable:
    cluster = floor.cluster
    sets = slot_sets(cluster.width, gpus) if cluster.slots else np.zeros((0, gpus), dtype=np.intp)
    return SetTable(merit, gpus, _allowed(floor, models), sets, cluster.n_nodes)


def _allowed(floor: Floor, models: frozenset[int] | None) -> BoolArray | None:
    return None if models is None else np.isin(floor.cluster.gpu_model, sorted(models))


def slot_sets(width: int, gpus: int) -> IntArray:
    """Every choice of slots; on nodes so wide that there are over MOST_SETS, neighbouring slots only."""
    count = 1
    for i in range(gpus):
        count = count * (width - i) // (i + 1)
    if count <= MOST_SETS:
        return np.array(list(combinations(range(width), gpus)), dtype=np.intp).reshape(-1, gpus)
    return np.arange(width - gpus + 1)[:, None] + np.arange(gpus)[None, :]
