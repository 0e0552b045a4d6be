"""`cost`: the most steps for the money; `cost-slo`: and every job by its time.

The sum of rate over price, job by job: the ratio of the two sums would be best with one job running for an instant.
A job that can't be in time any more, or is late already, keeps its claim: as fast as it can run anywhere. Where not all
claims can be had at once, each gets the same part of its own, the largest that can be had, and the shares say so.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.policy.entitlement.division import Alike, Division, Shares, alone, equals
from pal_slurm.policy.entitlement.level import CommonLevel
from pal_slurm.policy.solving import Lack, NoAnswer

ROOM = 1.0 - 1e-9  # of the largest part, so that a second program finds it too


def cost(division: Division) -> Shares:
    merged = equals(division)
    return _cheapest(division, merged, np.zeros(len(merged.first)))


def cost_slo(division: Division) -> Shares:
    claims = slo_claims(division)
    merged = alone(division.n_jobs) if claims.any() else equals(division)
    claims = claims[merged.first]
    try:
        return _cheapest(division, merged, claims)
    except NoAnswer as none:
        if none.why is not Lack.INFEASIBLE:
            raise
    part = CommonLevel(division, merged).solve(claims).value * ROOM
    note = f"Not all can be in time: each is owed {part:.0%} of the speed that it would need."
    return _cheapest(division, merged, claims * part, note)


def slo_claims(division: Division) -> FloatArray:
    """(jobs,) the rate that each needs from now on to be in time; the best there is where none is fast enough."""
    left, steps = division.needs("left_s"), division.needs("steps")
    best = np.where(division.runs, division.rates.max(axis=1, initial=0.0), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        need = np.where(left > 0, steps / left, np.inf)
    return np.where(steps > 0, np.minimum(need, best), 0.0)


def _cheapest(division: Division, merged: Alike, claims: FloatArray, note: str = "") -> Shares:
    """Prices are a pool's, so a rate there is worth so much: they go into the rates of what is to be gained."""
    prices = division.needs("prices")
    level = CommonLevel(division, merged, gain=np.ones(len(merged.first)), prices=prices)
    answer = level.solve(np.zeros(len(merged.first)), claims)
    return level.shares(answer, answer.value, note)
