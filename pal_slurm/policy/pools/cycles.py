"""The best assignment of jobs of one size to pools, from the present one. In: values, room, pools now. Out: pools.

A plan is the best when no cycle of jobs, each going to the pool of the next, gains anything; a free GPU counts as a job
that is worth nothing anywhere, and waiting as a pool with room for all. There are few pools, so cycles are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pal_slurm.model import FloatArray, IntArray

GAIN = 1e-9  # less is none


def in_cycles(worth: FloatArray, room: Sequence[int], now: IntArray) -> IntArray:
    """(jobs,) the pool of each; -1: it waits. `worth`: (jobs, pools)."""
    n, pools = worth.shape
    value = np.concatenate((worth, np.zeros((n, 1))), axis=1)
    at = np.where(now < 0, pools, now)
    taken = np.bincount(at, minlength=pools + 1).tolist()
    every = np.arange(n)
    # by pool: what the best of its jobs would gain in each other pool, and who that is
    gain, who = [[-math.inf] * (pools + 2) for _ in range(pools + 2)], [[-1] * (pools + 1) for _ in range(pools + 1)]
    stale = set(range(pools + 1))
    own = value[every, at]
    while True:
        for a in stale:
            jobs = (at == a).nonzero()[0]
            if len(jobs):
                gains = value[jobs] - own[jobs, None]
                best = gains.argmax(axis=0)
                who[a] = jobs[best].tolist()
                gain[a][: pools + 1] = gains[best, np.arange(pools + 1)].tolist()
            else:
                gain[a][: pools + 1] = [-math.inf] * (pools + 1)
            gain[a][a] = -math.inf
        for pool in range(pools):
            gain[pool][-1] = 0.0 if taken[pool] < room[pool] else -math.inf
        gain[pools][-1] = 0.0
        gain[-1] = [0.0] * (pools + 1) + [-math.inf]
        cycle = _gaining(gain)
        if cycle is None:
            return np.where(at == pools, -1, at)
        stale = set()
        for a, b in cycle:
            if a <= pools and b <= pools:
                job = who[a][b]
                at[job], own[job] = b, value[job, b]
                taken[a] -= 1
                taken[b] += 1
                stale |= {a, b}


def _gaining(gain: Sequence[Sequence[float]]) -> list[tuple[int, int]] | None:
    """A cycle with a gain, by Floyd and Warshall's walk; None: there is none."""
    n = len(gain)
    most = [list(row) for row in gain]
    then = [list(range(n)) for _ in range(n)]
    for k in range(n):
        through = most[k]
        for a in range(n):
            first = most[a][k]
            if first == -math.inf:
                continue
            row = most[a]
            for b in range(n):
                if first + through[b] > row[b] + GAIN:
                    row[b] = first + through[b]
                    then[a][b] = then[a][k]
        for a in range(n):
            if most[a][a] > GAIN:
                cycle = _walk(then, a)
                if sum(gain[x][y] for x, y in cycle) > GAIN:
                    return cycle
    return None


def _walk(then: Sequence[Sequence[int]], start: int) -> list[tuple[int, int]]:
    """The pools from `start` back to itself; of a walk that bites its own tail, the loop."""
    steps: list[tuple[int, int]] = []
    seen: dict[int, int] = {}
    at = start
    while at not in seen:
        seen[at] = len(steps)
        steps.append((at, then[at][start]))
        at = steps[-1][1]
    return steps[seen[at] :]
