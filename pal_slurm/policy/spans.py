"""Several nodes for one job. In: a SetTable and the nodes with room. Out: the best Gang, over slot sets and racks.

For one slot set the best m nodes are those with the lowest worst rank; so per slot set (and rack) only the m-th lowest
matters. The winner's nodes are then chosen among all that are no worse than it, by what they cost others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pal_slurm.model import FloatArray, IntArray, Tier, step_time
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.tables import NO_RANK, SetTable

DEAR = np.int64(1) << 40  # more than the cost of any set of nodes


@dataclass(frozen=True, slots=True)
class Gang:
    rank: int  # of its worst GPU
    tier: Tier
    cost: int
    rows: tuple[int, ...]
    slots: tuple[tuple[int, ...], ...]
    exact: bool


def best_gang(
    floor: Floor, table: SetTable, rows: IntArray, nodes: int, levels: tuple[float, ...], comm: tuple[float, float]
) -> Gang | None:
    """`rows`: the nodes with room, enough of them; `comm`: the cost of a rack and of the cluster.

    Least step time first, then the narrower span, then the cost.
    """
    rank, cost = table.rank[:, rows], table.cost(floor, rows)
    wide = np.partition(rank, nodes - 1, axis=1)[:, nodes - 1].min()
    if wide == NO_RANK:
        return None
    if floor.cluster.one_rack:
        groups, narrow = [np.arange(len(rows))], wide
    else:
        groups = _groups(floor.cluster.rack[rows], nodes)
        narrow = min((_least(rank[:, g], nodes) for g in groups), default=NO_RANK)
    if narrow != NO_RANK and step_time(1.0, levels[narrow], comm[0]) <= step_time(1.0, levels[wide], comm[1]):
        choices = [_cheapest(rank[:, g], cost[:, g], nodes, int(narrow), g) for g in groups]
        found = min((c for c in choices if c is not None), key=lambda c: c[:2])
        worst, tier = int(narrow), Tier.RACK
    else:
        found, worst, tier = _under_fewest(floor, rows, rank, cost, nodes, int(wide)), int(wide), Tier.CLUSTER
    total, choice, picked = found
    taken = tuple(int(rows[i]) for i in sorted(picked))
    exact = choice < len(table.sets)
    return Gang(worst, tier, total, taken, tuple(table.slots(floor, choice, row) for row in taken), exact)


def thriftiest_gang(
    floor: Floor, table: SetTable, rows: IntArray, nodes: int, levels: tuple[float, ...], comm: tuple[float, float],
    thrift: float,
) -> tuple[Gang, float] | None:  # fmt: skip
    """The gang of the lowest price, and that price: the step time, raised by `thrift` x the share of free GPUs left.

    Of equal prices the one under the lowest switch is taken, then the one that costs others least.
    """
    rank, cost = table.rank[:, rows], table.cost(floor, rows)
    left = (floor.n_free[rows] - table.gpus) / np.maximum(floor.cluster.gpus_per_node[rows], 1)
    best: tuple[float, int, int] | None = None
    gang: Gang | None = None
    for height, (tier, among) in enumerate(_under_switches(floor, rows, nodes)):
        here, span = rank[:, among], comm[0] if tier is Tier.RACK else comm[1]
        first = _least(here, nodes)
        if first == NO_RANK:
            continue
        for worst in np.unique(here[(here >= first) & (here != NO_RANK)]).tolist():
            least = step_time(1.0, levels[worst], span)
            if (best is not None and least > best[0]) or levels[worst] > levels[first] * (1.0 + thrift):
                break
            found = _emptiest(here, left[among], cost[:, among], nodes, worst)
            if found is None:
                continue
            share, total, choice, picked = found
            # Racks come first, one after the other, and are of one height.
            price = (least * (1.0 + thrift * share), 0 if tier is Tier.RACK else height, total)
            if best is None or price < best:
                best, at = price, sorted(int(among[i]) for i in picked)
                slots = tuple(table.slots(floor, choice, int(rows[i])) for i in at)
                slowest = int(rank[choice, at].max())
                gang = Gang(slowest, tier, total, tuple(int(rows[i]) for i in at), slots, choice < len(table.sets))
    return None if gang is None or best is None else (gang, best[0])


def _under_switches(floor: Floor, rows: IntArray, nodes: int) -> list[tuple[Tier, IntArray]]:
    """Positions of the nodes of each rack, then of each higher switch, then all."""
    everywhere = np.arange(len(rows))
    if floor.cluster.one_rack:
        return [(Tier.RACK, everywhere)]
    racks = [(Tier.RACK, g) for g in _groups(floor.cluster.rack[rows], nodes)]
    above = [(Tier.CLUSTER, g) for level in floor.cluster.above for g in _groups(level[rows], nodes)]
    return [*racks, *above, (Tier.CLUSTER, everywhere)]


def _emptiest(
    rank: IntArray, left: FloatArray, cost: IntArray, nodes: int, worst: int
) -> tuple[float, int, int, list[int]] | None:
    """(share left free, cost, slot set, positions) of the m nodes that keep least free, then cost others least."""
    sets = np.flatnonzero((rank <= worst).sum(axis=1) >= nodes)
    if not len(sets):
        return None
    cheapest = left[None, :] + cost[sets] / (1 << 50)  # the cost breaks ties only
    picked = np.argsort(np.where(rank[sets] <= worst, cheapest, np.inf), axis=1, kind="stable")[:, :nodes]
    shares = left[picked].mean(axis=1)
    totals = np.take_along_axis(cost[sets], picked, axis=1).sum(axis=1)
    i = int(np.lexsort((totals, shares))[0])
    return float(shares[i]), int(totals[i]), int(sets[i]), picked[i].tolist()


def _under_fewest(
    floor: Floor, rows: IntArray, rank: IntArray, cost: IntArray, nodes: int, worst: int
) -> tuple[int, int, list[int]]:
    """Beyond a rack all spans cost alike; even so what one switch of a lower level joins spares the links above it."""
    for level in floor.cluster.above:
        choices = [_cheapest(rank[:, g], cost[:, g], nodes, worst, g) for g in _groups(level[rows], nodes)]
        near = [choice for choice in choices if choice is not None]
        if near:
            return min(near, key=lambda choice: choice[:2])
    chosen = _cheapest(rank, cost, nodes, worst, np.arange(len(rows)))
    assert chosen is not None  # `worst` was reached by some set
    return chosen


def _groups(racks: IntArray, nodes: int) -> list[IntArray]:
    """Positions of the nodes of each rack that has enough of them."""
    order = np.argsort(racks, kind="stable")
    cuts = np.flatnonzero(np.diff(racks[order])) + 1
    return [part for part in np.split(order, cuts) if len(part) >= nodes]


def _least(rank: IntArray, nodes: int) -> int:
    return int(np.partition(rank, nodes - 1, axis=1)[:, nodes - 1].min())


def _cheapest(
    rank: IntArray, cost: IntArray, nodes: int, worst: int, where: IntArray
) -> tuple[int, int, list[int]] | None:
    """(cost, slot set, positions) of the m nodes that cost others least among those no worse than `worst`."""
    sets = np.flatnonzero((rank <= worst).sum(axis=1) >= nodes)
    if not len(sets):
        return None
    prices = np.where(rank[sets] <= worst, cost[sets], DEAR)
    totals = np.partition(prices, nodes - 1, axis=1)[:, :nodes].sum(axis=1)
    i = int(totals.argmin())
    picked = np.argsort(prices[i], kind="stable")[:nodes]
    return int(totals[i]), int(sets[i]), [int(p) for p in where[picked]]
