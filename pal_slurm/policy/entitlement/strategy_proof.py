"""`strategy-proof`: nobody gains by telling wrong rates. The best product of all levels, and of it each job a part.

X* is the shares with the highest product of (rate over equal share); job i is owed the part of X*_i that is left of the
others' rates by its being there: the product over all others of their rate with it over their rate without it.
The product's logarithm is concave: programs with tangents to it, until they touch.
"""

from __future__ import annotations

import math

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.solving import INFINITY, Columns, LinearProgram, packed

EXACT = 1e-7  # of the mean logarithm
MOST_TANGENTS = 60


def strategy_proof(division: Division) -> Shares:
    share, _ = best_product(division)
    rate = (share * division.rates).sum(axis=1)
    part = np.ones(division.n_jobs)
    for job in range(division.n_jobs):
        others = np.delete(np.arange(division.n_jobs), job)
        _, without = best_product(division.without(job))
        with_it = rate[others]
        there = without > 0
        with np.errstate(divide="ignore"):  # who takes all that another would have gets nothing
            part[job] = min(1.0, math.exp(float(np.log(with_it[there] / without[there]).sum())))
    share = share * part[:, None]
    return Shares(share, rate * part, float((rate * part / division.equal).min(initial=np.inf)))


def best_product(division: Division) -> tuple[FloatArray, FloatArray]:
    """Shares, and the rates that come of them; who can run nowhere, or weighs nothing, is left out."""
    n, pools = division.rates.shape
    share = np.zeros((n, pools))
    counted = np.flatnonzero(division.runs & (division.weights > 0))
    if not len(counted):
        return share, np.zeros(n)
    best = division.rates[counted].max(axis=1)
    rates = division.rates[counted] / best[:, None]
    job, pool = np.nonzero((rates > 0) & (division.gpus >= division.sizes[counted][:, None]))
    k, xs = len(counted), len(job)
    # columns: times, then one logarithm for each job, counted from LOW up; rows: time, pools, and the tangents
    points = [np.full(k, a) for a in _tangent_points().tolist()]
    level = rates.max(axis=1)
    for _ in range(MOST_TANGENTS):
        answer = _solve(division, counted, rates, (job, pool), points)
        spent = answer[:xs]
        level = np.zeros(k)
        np.add.at(level, job, spent * rates[job, pool])
        level = np.maximum(level, 1e-9)
        above = answer[xs:] + LOW - np.log(level)
        if above.mean() <= EXACT:
            break
        points.append(level)
    share[counted[job], pool] = spent
    rate = np.zeros(n)
    rate[counted] = level * best
    return share, rate


LOW = math.log(1e-9)  # of a level: columns are 0 or more


def _tangent_points() -> FloatArray:
    return np.geomspace(1e-3, 1.0, 13)


def _solve(
    division: Division,
    counted: np.ndarray[tuple[int], np.dtype[np.int64]],
    rates: FloatArray,
    where: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]],
    points: list[FloatArray],
) -> FloatArray:
    """log(r) <= log(a) + (r - a) / a for each a: the logarithms' sum, as high as these let it be."""
    job, pool = where
    k, pools, xs, cuts = len(counted), len(division.gpus), len(job), len(points)
    first = k + pools
    rows = np.full((xs + k, 2 + cuts), -1)
    values = np.zeros((xs + k, 2 + cuts))
    rows[:xs, 0], rows[:xs, 1] = job, k + pool
    values[:xs, 0], values[:xs, 1] = 1.0, division.sizes[counted][job]
    upper = np.full(first + cuts * k, INFINITY)
    upper[:k], upper[k:first] = 1.0, division.gpus
    for c, a in enumerate(points):
        rows[:xs, 2 + c], values[:xs, 2 + c] = first + c * k + job, -rates[job, pool] / a[job]
        rows[xs:, 2 + c], values[xs:, 2 + c] = first + c * k + np.arange(k), 1.0
        upper[first + c * k : first + (c + 1) * k] = np.log(a) - 1.0 - LOW
    gain = np.concatenate((np.zeros(xs), division.weights[counted]))
    columns = Columns(gain, np.full(xs + k, INFINITY), *packed(rows, values))
    return LinearProgram(columns, np.full(len(upper), -INFINITY), upper).solve().columns
