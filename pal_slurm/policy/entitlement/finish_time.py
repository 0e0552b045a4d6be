"""`finish-time`: the worst of (how long it will take, over how long with 1/n of everything) is as low as can be.

rho_i = (age + steps / rate) / (isolated so far + steps / isolated rate). For one rho all is linear: rate_i >= steps_i /
(rho D_i - age_i). The duals of a rho that is too low tell the next: prices at which the needs cost more than there is
say so for every rho at which they still do. So the search goes up to the answer in a few steps and never past it.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.policy.entitlement.division import Division, Shares, equals
from pal_slurm.policy.entitlement.isolated import isolated_share
from pal_slurm.policy.entitlement.level import CommonLevel

EXACT = 1e-7  # of rho
MOST_STEPS = 60


def finish_time(division: Division) -> Shares:
    steps = np.where(division.runs, division.needs("steps"), 0.0)
    n = division.n_jobs
    age = np.zeros(n) if division.age_s is None else division.age_s
    so_far = np.zeros(n) if division.isolated_s is None else division.isolated_s
    slow = (isolated_share(division) * division.rates).sum(axis=1)
    isolated = so_far + steps / np.where(slow > 0, slow, 1.0)
    merged = equals(division, steps, age, isolated)
    first = merged.first
    level = CommonLevel(division, merged)
    best = division.rates.max(axis=1, initial=0.0)
    search = _Search(steps[first], age[first], isolated[first], merged.many)
    rho = search.least(best[first])
    for _ in range(MOST_STEPS):
        answer = level.solve(search.needs(rho))
        if answer.value >= 1.0 - EXACT:
            break
        higher = search.after(rho, answer.duals, answer.value)
        if higher <= rho * (1 + EXACT):
            break
        rho = higher
    return level.shares(answer, rho)


class _Search:
    def __init__(self, steps: FloatArray, age: FloatArray, isolated: FloatArray, count: FloatArray) -> None:
        self._there = steps > 0
        self._steps, self._age = steps, age
        self._isolated = np.where(isolated > 0, isolated, 1.0)
        self._count = count

    def least(self, best: FloatArray) -> float:
        """No rho is lower than with the best GPUs always."""
        if not self._there.any():
            return 0.0
        there = self._there
        return float(((self._age[there] + self._steps[there] / best[there]) / self._isolated[there]).max())

    def needs(self, rho: float) -> FloatArray:
        room = np.where(self._there, rho * self._isolated - self._age, 1.0)
        return np.where(self._there, self._steps / np.maximum(room, 1e-12), 0.0)

    def after(self, rho: float, duals: FloatArray, level: float) -> float:
        """The rho at which the needs cost, at these prices, what there is: Newton from below on a convex curve."""
        there = self._there & (duals > 0)
        steps, isolated, age, price = (x[there] for x in (self._steps, self._isolated, self._age, duals))
        has = level * float((price * steps / (rho * isolated - age)).sum())
        for _ in range(50):
            room = rho * isolated - age
            asks = float((price * steps / room).sum())
            slope = -float((price * steps * isolated / room**2).sum())
            step = (has - asks) / slope
            rho += step
            if abs(step) <= EXACT * 1e-2 * rho:
                break
        return rho
