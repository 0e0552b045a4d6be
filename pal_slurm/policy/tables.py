"""Nodes ranked for one class and one number of GPUs. In: the floor's free GPUs. Out: integer keys; least is best.

A key packs, from the top: the rank of the worst GPU that the job would get there (the bin's value: step time), the
summed worth of the GPUs (scarcity), and the GPUs that would be left over (packing). Equal keys go to the lowest node.
Only nodes that changed since the last look are computed anew; a few of them one by one, which is faster than numpy.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.policy.freegpus import slots_of
from pal_slurm.policy.merit import Merit

if TYPE_CHECKING:
    from pal_slurm.policy.floor import Floor

Key = NDArray[np.int64]
LEFT_BITS = 6  # fewer than 64 slots on a node
WORTH_BITS = 18
RANK_SHIFT = LEFT_BITS + WORTH_BITS
COST_MASK = (1 << RANK_SHIFT) - 1
NEVER = int(np.iinfo(np.int64).max)
NO_RANK = np.int32(np.iinfo(np.int32).max)
FEW = 32  # rows that are computed one by one
MOST_KEPT = 1 << 16  # keys, and choices of slots
MOST_SETS = 1000  # choices of slots tried for a job on several nodes; 8-GPU nodes have at most 70


Number = TypeVar("Number", float, FloatArray)


class Pricing(Protocol):
    """What a node, or each of several, costs a job.

    From the level of the worst GPU it would get there, the share of GPUs left over, and 0..1 for what breaks ties.
    """

    def __call__(self, level: Number, left: Number, tie: Number, /) -> Number: ...


class _Table:
    """Follows the floor's list of changed rows."""

    def __init__(self) -> None:
        self._seen = -1

    def stale_rows(self, floor: Floor) -> list[int] | slice | None:
        """Rows to compute anew: all at first or when most changed; None: up to date."""
        seen, self._seen = self._seen, len(floor.changed)
        if seen == self._seen:
            return None
        if seen < 0 or self._seen - seen > floor.cluster.n_nodes:
            return slice(None)
        return list(set(floor.changed[seen:]))


class NodeTable(_Table):
    """For a job on one node: `key[n]` is NEVER where it does not fit."""

    def __init__(
        self, merit: Merit, gpus: int, allowed: BoolArray | None, lowest: bool, gpus_per_node: IntArray
    ) -> None:
        super().__init__()
        self.key: Key = np.full(len(gpus_per_node), NEVER, dtype=np.int64)
        self._merit = merit
        self._have: list[int] = np.maximum(gpus_per_node, 1).tolist()
        self._gpus = gpus
        self._allowed = allowed  # (N, S) GPUs of the models wanted
        self._any = allowed is None and not lowest  # any free GPUs do
        self._lowest = lowest  # Slurm takes the lowest free devices: no choice within a node
        self._keys: dict[tuple[int, int], int] = {}  # by row and its free slots
        self._picks: dict[tuple[int, int], tuple[int, ...]] = {}
        self._price: FloatArray | None = None
        self._unpriced: dict[int, int] | None = {}  # by row, keys that are newer than their price; None: all

    def price(self, floor: Floor, pricing: Pricing) -> FloatArray:
        """(N,) what `pricing` makes of each key, infinity where the job does not fit; kept like the keys."""
        if self._price is None:
            self._price, self._unpriced = np.full(len(self.key), np.inf), None
        if self._unpriced is None or len(self._unpriced) > FEW:
            self._price_rows(floor, pricing, slice(None) if self._unpriced is None else list(self._unpriced))
        else:
            prices, levels, masks, have = self._price, self._merit.levels, floor.masks, self._have
            for row, key in self._unpriced.items():
                if key == NEVER:
                    prices[row] = np.inf
                    continue
                left = (masks[row].bit_count() - self._gpus) / have[row]
                prices[row] = pricing(levels[key >> RANK_SHIFT], left, (key & COST_MASK) / COST_MASK)
        self._unpriced = {}
        return self._price

    def _price_rows(self, floor: Floor, pricing: Pricing, rows: list[int] | slice) -> None:
        assert self._price is not None
        fits = self.key[rows] != NEVER
        key = np.where(fits, self.key[rows], 0)
        level = np.array(self._merit.levels)[key >> RANK_SHIFT]
        left = (floor.n_free[rows] - self._gpus) / np.maximum(floor.cluster.gpus_per_node[rows], 1)
        self._price[rows] = np.where(fits, pricing(level, left, (key & COST_MASK) / COST_MASK), np.inf)

    def refresh(self, floor: Floor) -> None:
        rows = self.stale_rows(floor)
        if rows is None:
            return
        if isinstance(rows, slice):
            self._unpriced = None
            self._refresh_rows(floor, rows)
            return
        known, keys, masks, k = self._keys, self.key, floor.masks, self._gpus
        unpriced = {} if self._unpriced is None else self._unpriced
        enough = [row for row in rows if masks[row].bit_count() >= k]
        if len(enough) < len(rows):
            self._fill_up([row for row in rows if masks[row].bit_count() < k], unpriced)
        if len(enough) > FEW:
            self._refresh_rows(floor, enough)
            unpriced.update(zip(enough, keys[enough].tolist(), strict=True))
            return
        if len(known) > MOST_KEPT:
            known.clear()
        for row in enough:
            at = (row, masks[row])
            key = known.get(at)
            if key is None:
                key = known[at] = self._key_of(floor, row)
            keys[row] = unpriced[row] = key

    def _fill_up(self, rows: list[int], unpriced: dict[int, int]) -> None:
        """So many GPUs are no longer free there."""
        self.key[rows] = NEVER
        if self._price is not None:
            self._price[rows] = np.inf
        for row in rows:
            unpriced.pop(row, None)

    def _key_of(self, floor: Floor, row: int) -> int:
        mask, k = floor.masks[row], self._gpus
        slots = slots_of(mask) if self._any else self._open(floor, row)
        if len(slots) < k:
            return NEVER
        rank, worth = self._merit.rank_lists[row], self._merit.worth_lists[row]
        if len(slots) == k:
            worst, spent = max([rank[s] for s in slots]), sum([worth[s] for s in slots])
        else:
            worst = sorted([rank[s] for s in slots])[k - 1]
            spent = sum(sorted([worth[s] for s in slots if rank[s] <= worst])[:k])
        return worst << RANK_SHIFT | spent << LEFT_BITS | mask.bit_count() - k

    def _refresh_rows(self, floor: Floor, rows: list[int] | slice) -> None:
        """The same for many rows at once."""
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

    def _open(self, floor: Floor, row: int) -> tuple[int, ...]:
        """The slots of one node that the job may be given."""
        free = slots_of(floor.masks[row])
        if self._lowest:
            free = free[: self._gpus]
        return free if self._allowed is None else tuple([s for s in free if self._allowed[row, s]])

    def slots(self, floor: Floor, row: int) -> tuple[int, ...]:
        """The GPUs that the key of this node stands for; among equals the lowest slots."""
        at = (row, floor.masks[row])
        found = self._picks.get(at)
        if found is None:
            if len(self._picks) > MOST_KEPT:
                self._picks.clear()
            found = self._picks[at] = self._pick(floor, row)
        return found

    def _pick(self, floor: Floor, row: int) -> tuple[int, ...]:
        slots, k = self._open(floor, row), self._gpus
        if len(slots) == k:
            return slots
        rank, worth = self._merit.rank_lists[row], self._merit.worth_lists[row]
        worst = sorted([rank[s] for s in slots])[k - 1]
        fine = sorted([(worth[s], s) for s in slots if rank[s] <= worst])
        return tuple(sorted([s for _, s in fine[:k]]))


class SetTable(_Table):
    """For a job on several nodes: per choice of slots (the same on each node) and node, the worst rank and the worth.

    The last choice is "whatever is lowest": each node gives its lowest free devices, which is what Slurm does with a
    pin that names no slots.
    """

    def __init__(self, merit: Merit, gpus: int, allowed: BoolArray | None, sets: IntArray, n_nodes: int) -> None:
        super().__init__()
        self.rank: IntArray = np.full((len(sets) + 1, n_nodes), NO_RANK, dtype=np.int32)
        self.worth: IntArray = np.zeros((len(sets) + 1, n_nodes), dtype=np.int64)
        self.sets = sets  # (C, k)
        if len(sets):
            self.worth[:-1] = merit.worth.astype(np.int64)[:, sets].sum(axis=2).T
        self._merit = merit
        self._gpus = self.gpus = gpus
        self._allowed = allowed
        self._stale: set[int] | None = None  # None: all

    def refresh(self, floor: Floor, rows: IntArray) -> None:
        """Only these are looked at now: those without room may stay stale."""
        changed = self.stale_rows(floor)
        if isinstance(changed, slice) or self._stale is None:
            self._stale = set(range(floor.cluster.n_nodes))
        elif changed is not None:
            self._stale.update(changed)
        due = [row for row in rows.tolist() if row in self._stale]
        if due:
            self._stale.difference_update(due)
            self._refresh_rows(floor, due)

    def _refresh_rows(self, floor: Floor, rows: list[int]) -> None:
        free, k, n = floor.free[rows], self._gpus, len(self.sets)
        open_ = free if self._allowed is None else free & self._allowed[rows]
        rank = np.where(open_, self._merit.rank[rows], NO_RANK)
        if n:
            self.rank[:n, rows] = rank[:, self.sets].max(axis=2).T
        lowest = free & (np.cumsum(free, axis=1) <= k)
        enough = floor.n_free[rows] >= k
        self.rank[n, rows] = np.where(enough, np.where(lowest, rank, 0).max(axis=1), NO_RANK)
        self.worth[n, rows] = np.where(lowest, self._merit.worth[rows], 0).sum(axis=1)

    def cost(self, floor: Floor, rows: IntArray) -> Key:
        """(C + 1, rows) of nodes with room: the worth, then GPUs left over."""
        left = floor.n_free[rows].astype(np.int64) - self._gpus
        return self.worth[:, rows] << LEFT_BITS | left

    def slots(self, floor: Floor, choice: int, row: int) -> tuple[int, ...]:
        if choice < len(self.sets):
            return tuple(self.sets[choice].tolist())
        return slots_of(floor.masks[row])[: self._gpus]


def node_table(
    floor: Floor, merit: Merit, gpus: int, models: frozenset[int] | None, by_slot: bool, linked: int | None
) -> NodeTable:
    cluster, allowed = floor.cluster, _allowed(floor, models)
    if linked is not None and cluster.linked is not None:
        group = cluster.linked == linked
        allowed = group if allowed is None else allowed & group
    return NodeTable(merit, gpus, allowed, not (cluster.slots and by_slot), cluster.gpus_per_node)


def set_table(floor: Floor, merit: Merit, gpus: int, models: frozenset[int] | None, by_slot: bool) -> SetTable:
    cluster = floor.cluster
    sets = slot_sets(cluster.width, gpus) if cluster.slots and by_slot else np.zeros((0, gpus), dtype=np.intp)
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
