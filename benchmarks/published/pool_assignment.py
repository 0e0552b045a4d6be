"""The assignment of jobs to pools of the highest summed worth. In: worth by job and pool, sizes. Out: a pool for each.

Jobs of one size: a plan is the best when no cycle of jobs, each going to the pool of the next, gains anything; a free
GPU counts as a job that is worth nothing anywhere, and waiting as a pool with room for all. There are few pools, so
cycles are few. Where sizes differ whole numbers are sought, beginning with the present plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pal_slurm.model import FloatArray, IntArray
from pal_slurm.policy.solving import INFINITY, Columns, LinearProgram, NoAnswer, packed

GAIN = 1e-9  # less is none
GAP = 1e-3  # of the best plan
MANY = 32  # newcomers at once: one by one they cost more than a program for all, whose rest cycles find
NOT_THERE = -1e9  # the worth of a pool where a job can't run
SOLVE_S = 1.0  # for one plan


class Match(NamedTuple):
    pools: IntArray  # of each claim, -1: none
    proven: bool = True  # False: the time ran out, and this is the best found so far, at worst what runs stays


def best(worth: FloatArray, sizes: IntArray, gpus: Sequence[int], now: IntArray, most_s: float | None = None) -> Match:
    """The pools of the highest summed worth, `worth` being (jobs, pools) per GPU; `now`: where they run, or -1."""
    alike = bool((sizes == sizes[0]).all())
    found, proven = now, True
    if not alike or np.count_nonzero(now < 0) > MANY:
        found, proven = _whole(worth, sizes, np.array(gpus, dtype=float), now, most_s)
    if alike:
        found, proven = in_cycles(worth, [g // int(sizes[0]) for g in gpus], found), True
    return Match(found, proven)


def _whole(worth: FloatArray, sizes: IntArray, gpus: FloatArray, now: IntArray, most_s: float | None) -> Match:
    """Of equal rows it counts how many go where: fewer unknowns, and none that differ by name only."""
    rows = np.column_stack((worth, sizes, now)).round(9)
    _, first, of, count = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    of = of.reshape(-1)
    kind, pool = np.nonzero(worth[first] > NOT_THERE / 2)
    size = sizes[first][kind].astype(float)
    entries = packed(np.column_stack((kind, len(first) + pool)), np.column_stack((np.ones(len(kind)), size)))
    columns = Columns(size * worth[first][kind, pool], count[kind].astype(float), *entries)
    upper = np.concatenate((count.astype(float), gpus))
    program = LinearProgram(columns, np.full(len(upper), -INFINITY), upper, whole=True, gap=GAP)
    stay = np.where(now[first][kind] == pool, count[kind], 0).astype(float)
    program.begin(stay)
    try:
        answer = program.solve(SOLVE_S if most_s is None else most_s)
        found, proven = answer.columns, answer.proven
    except NoAnswer:
        found, proven = stay, False
    out = np.full(len(sizes), -1)
    left = {c: np.flatnonzero(of == c).tolist() for c in range(len(first))}
    for c, p, n in zip(kind.tolist(), pool.tolist(), np.rint(found).astype(int).tolist(), strict=True):
        for _ in range(n):
            out[left[c].pop()] = p
    return Match(out, proven)


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
