"""`fifo`: who came sooner counts more: the sum over jobs of (how many came after it) x (rate over its best)."""

from __future__ import annotations

import numpy as np

from pal_slurm.policy.entitlement.division import Division, Shares, alone
from pal_slurm.policy.entitlement.level import CommonLevel


def fifo(division: Division) -> Shares:
    """Rows are in the order of arrival."""
    n = division.n_jobs
    best = np.where(division.runs, division.rates.max(axis=1, initial=0.0), 1.0)
    level = CommonLevel(division, alone(n), gain=np.arange(n, 0, -1) / best)
    answer = level.solve(np.zeros(n))
    return level.shares(answer, answer.value)
