"""Which pool each job runs in. In: claims of jobs that shall run, GPUs of the pools. Out: a pool for each, or none.

maximise the sum over jobs and pools of  gpus_i x_ij (MORE + ln rate_ij + ln(1 - cost_ij / horizon_i))
where the cost is that of a move, 0 for who stays or starts; within the pools' GPUs; each job in one pool or waiting.

The logarithm makes a job's own scale a constant, and halving one job's speed as bad as halving another's. One job more
that runs beats any better match. Jobs of one GPU are moved round in cycles while that gains: exact, and quick because
the present plan is nearly right. Where sizes differ whole numbers are sought, beginning with the present plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pal_slurm.model import FloatArray, IntArray
from pal_slurm.policy.pools.claims import PoolClaim
from pal_slurm.policy.pools.cycles import in_cycles
from pal_slurm.policy.solving import INFINITY, Columns, LinearProgram, NoAnswer, packed

MORE = 20.0
HORIZON_S = 7200.0  # as far ahead as a plan is believed
HELD = 1000.0  # that who may not be moved stays
GAP = 1e-3  # of the best plan
MANY = 32  # newcomers at once: one by one they cost more than a program for all, whose rest cycles find
NOT_THERE = -1e9


def values(claims: Sequence[PoolClaim], move_cost_s: float) -> FloatArray:
    """(claims, pools) what each is worth there, per GPU."""
    rates = np.array([claim.rates for claim in claims])
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(rates > 0, MORE + np.log(rates), NOT_THERE)
    pool = np.array([claim.pool for claim in claims])
    runs = np.flatnonzero(pool >= 0)
    if not len(runs):
        return worth
    rest_s = np.array([claims[i].rest_s for i in runs.tolist()])
    movable = np.array([claims[i].movable for i in runs.tolist()])
    at, stays = pool[runs], worth[runs, pool[runs]]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = 1.0 - move_cost_s / np.minimum(HORIZON_S, rest_s)
        loss = np.where(left > 0, np.log(left), NOT_THERE)
    worth[runs] = np.where(movable[:, None], worth[runs] + loss[:, None], NOT_THERE)
    worth[runs, at] = np.where(movable, stays, stays + HELD)
    return worth


class Match(NamedTuple):
    pools: IntArray  # of each claim, -1: none
    proven: bool = True  # False: the time ran out, and this is the best found so far, at worst what runs stays


def assign(claims: Sequence[PoolClaim], gpus: Sequence[int], move_cost_s: float, most_s: float = 1.0) -> list[int]:
    """A pool for each claim, -1: none."""
    if not claims:
        return []
    sizes = np.array([claim.gpus for claim in claims])
    now = np.array([claim.pool for claim in claims])
    return [int(pool) for pool in best(values(claims, move_cost_s), sizes, gpus, now, most_s).pools]


def best(worth: FloatArray, sizes: IntArray, gpus: Sequence[int], now: IntArray, most_s: float = 1.0) -> Match:
    """The pools of the highest summed worth, `worth` being (jobs, pools) per GPU; `now`: where they run, or -1."""
    alike = bool((sizes == sizes[0]).all())
    found, proven = now, True
    if not alike or np.count_nonzero(now < 0) > MANY:
        found, proven = _whole(worth, sizes, np.array(gpus, dtype=float), now, most_s)
    if alike:
        found, proven = in_cycles(worth, [g // int(sizes[0]) for g in gpus], found), True
    return Match(found, proven)


def _whole(worth: FloatArray, sizes: IntArray, gpus: FloatArray, now: IntArray, most_s: float) -> Match:
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
        answer = program.solve(most_s)
        found, proven = answer.columns, answer.proven
    except NoAnswer:
        found, proven = stay, False
    out = np.full(len(sizes), -1)
    left = {c: np.flatnonzero(of == c).tolist() for c in range(len(first))}
    for c, p, n in zip(kind.tolist(), pool.tolist(), np.rint(found).astype(int).tolist(), strict=True):
        for _ in range(n):
            out[left[c].pop()] = p
    return Match(out, proven)
