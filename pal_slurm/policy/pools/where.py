"""Which pool each job runs in. In: claims of jobs that shall run, GPUs of the pools. Out: a pool for each, or none.

maximise the sum over jobs and pools of
    gpus_i x_ij (MORE + ln rate_ij + ln(1 - cost_ij / horizon_i) - cost followers_j / rest_i)
where cost_ij is that of a move, 0 for who stays or starts; within the pools' GPUs; each job in one pool or waiting.
Followers are the moves that an end in a pool brings about: who is in a worse one comes, and leaves a place that another
wants. Who goes on for long keeps them away for long, so of two that gain alike he has the better GPUs.

The logarithm makes a job's own scale a constant, and halving one job's speed as bad as halving another's. One job more
that runs beats any better match. Jobs of one GPU are moved round in cycles while that gains: exact, and quick because
the present plan is nearly right. Where sizes differ whole numbers are sought, beginning with the present plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.policy.pools.claims import PoolClaim, rest_s
from pal_slurm.policy.pools.cycles import in_cycles
from pal_slurm.policy.solving import INFINITY, Columns, LinearProgram, NoAnswer, packed

MORE = 20.0
HORIZON_S = 7200.0  # as far ahead as a plan is believed
HELD = 1000.0  # that who may not be moved stays
GAP = 1e-3  # of the best plan
MANY = 32  # newcomers at once: one by one they cost more than a program for all, whose rest cycles find
NOT_THERE = -1e9
SOLVE_S = 1.0  # for one plan


class ClaimFields(NamedTuple):
    """Claims, field by field."""

    gpus: IntArray
    rates: FloatArray
    movable: BoolArray
    pool: IntArray
    began: FloatArray
    ends: FloatArray


def by_field(claims: Sequence[PoolClaim]) -> ClaimFields:
    return ClaimFields(*map(np.array, list(zip(*claims, strict=True))[1:]))


def values(claims: ClaimFields, now: float, move_cost_s: float, followers: FloatArray) -> FloatArray:
    """(claims, pools) what each is worth there, per GPU."""
    rates, pool = claims.rates, claims.pool
    rest = rest_s(claims.began, claims.ends, now)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(rates > 0, MORE + np.log(rates), NOT_THERE)
    if followers.any():
        worth -= np.outer(move_cost_s / np.maximum(rest, HORIZON_S), followers)
    runs = np.flatnonzero(pool >= 0)
    if not len(runs):
        return worth
    movable = claims.movable[runs]
    at, stays = pool[runs], worth[runs, pool[runs]]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = 1.0 - move_cost_s / np.minimum(HORIZON_S, rest[runs])
        loss = np.where(left > 0, np.log(left), NOT_THERE)
    worth[runs] = np.where(movable[:, None], worth[runs] + loss[:, None], NOT_THERE)
    worth[runs, at] = np.where(movable, stays, stays + HELD)
    return worth


class Match(NamedTuple):
    pools: IntArray  # of each claim, -1: none
    proven: bool = True  # False: the time ran out, and this is the best found so far, at worst what runs stays


def followed(gpus: Sequence[int], asked: int, prices: Sequence[float]) -> FloatArray:
    """(pools,) moves that an end brings about, where so many GPUs are asked for: one for each cheaper pool in turn.

    Nobody follows to where there is room for all who would rather be there; who waits takes the place without a move.
    """
    moves = np.zeros(len(gpus))
    if asked >= sum(gpus):
        return moves
    chain, dearest, last = 0.0, sum(gpus), math.nan
    for pool in sorted(range(len(gpus)), key=prices.__getitem__):
        full = asked >= dearest  # it, and those that are dearer
        chain = 0.0 if not full else chain + (prices[pool] > last)
        moves[pool], last = chain, prices[pool]
        dearest -= gpus[pool]
    return moves


def assign(
    claims: Sequence[PoolClaim],
    gpus: Sequence[int],
    now: float,
    move_cost_s: float,
    prices: Sequence[float] = (),
    most_s: float | None = None,
) -> list[int]:
    """A pool for each claim, -1: none. `prices`: which pools are wanted more than which; none: nobody knows."""
    if not claims:
        return []
    asked = by_field(claims)
    followers = followed(gpus, int(asked.gpus.sum()), prices or [1.0] * len(gpus))
    worth = values(asked, now, move_cost_s, followers)
    found: list[int] = best(worth, asked.gpus, gpus, asked.pool, most_s).pools.tolist()
    return found


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
