"""What a small job pays for breaking up a whole node when wide jobs are usual. In: wide jobs that ended. Out: prices.

No wide job waits yet (earmark.py is for one that does). But where wide jobs come often, the next one probably comes
while a small job runs, and waits for it. So the nodes that will be whole first are dearer to jobs that leave GPUs of
them over: by the share of its own run for which the next wide job would wait, in the mean over the times at which wide
jobs have ended. A small job takes a slower GPU only where that costs it less than wide jobs gain by it, and `MOST` at
most. It never waits for that, and a job for which only the faster GPU will do gets it (`Walk.answer`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pal_slurm.model import FloatArray

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner

MOST = 0.05
FEW = 3.0  # runs without a wide job that count beside what was seen: few wide jobs are not usual


class _Node(NamedTuple):
    """The k-th of its pool that will be whole."""

    row: int
    whole_in_s: float
    gaps: FloatArray  # between the ends of wide jobs of k nodes or more
    seen_s: float  # since the first of these


class Spared:
    """In one plan."""

    def __init__(self, planner: Planner) -> None:
        self._n_nodes = planner.cluster.n_nodes
        self._nodes = _next_whole(planner)
        self._prices: dict[int, FloatArray | None] = {}

    def price(self, run_s: float) -> FloatArray | None:
        """(N,) times as dear as it is, for a job that runs so long (to the next power of two); None: none is dearer."""
        if not self._nodes:
            return None
        octave = round(math.log2(max(run_s, 1.0)))
        if octave not in self._prices:
            self._prices[octave] = self._priced(2.0**octave)
        return self._prices[octave]

    def _priced(self, run_s: float) -> FloatArray | None:
        price = np.ones(self._n_nodes)
        for node in self._nodes:
            if node.whole_in_s < run_s:
                later = 1.0 - (node.whole_in_s / run_s) ** 2  # it is not whole before that anyway
                price[node.row] += min(MOST, later * _waits(node.gaps, node.seen_s, run_s))
        return price if (price > 1.0).any() else None


def _waits(gaps: FloatArray, seen_s: float, run_s: float) -> float:
    """The share of its run for which the next wide job waits, if it begins at any moment of the time that was seen."""
    within = np.minimum(gaps, run_s)
    waited = float((within * run_s - within**2 / 2).sum()) / run_s  # of each gap, by all who begin in it
    return waited / (seen_s + FEW * run_s)


def _next_whole(planner: Planner) -> list[_Node]:
    lately = planner.facts.wide.lately()
    if len(lately) < 2:
        return []
    cluster, floor, now = planner.cluster, planner.floor, planner.now
    by_pool: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for job in lately:
        if (row := cluster.node_index.get(job.nodes[0])) is not None:
            by_pool[int(cluster.alike[row])].append((job.ended, len(job.nodes)))
    at = np.sort(planner.horizon.expected(), axis=1)
    found: list[_Node] = []
    for pool, ends in by_pool.items():
        rows = np.flatnonzero(cluster.alike == pool)
        gpus, free = int(cluster.gpus_per_node[rows[0]]), int(floor.n_free[rows].sum())
        whole = at[rows, gpus - 1]
        order = np.lexsort((-floor.n_free[rows], whole))
        most = min(max(nodes for _, nodes in ends), len(rows) - 1, free // gpus)
        for k in range(most):
            those = np.array([ended for ended, nodes in ends if nodes > k])
            if len(those) < 2:
                break
            row = int(order[k])
            found.append(_Node(int(rows[row]), float(whole[row]) - now, np.diff(those), now - float(those[0])))
    return found
