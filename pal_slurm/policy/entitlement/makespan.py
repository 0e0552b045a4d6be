"""`makespan`: the last job ends as soon as can be. One program, exact: the highest t with rate >= t steps for all."""

from __future__ import annotations

import math

import numpy as np

from pal_slurm.policy.entitlement.division import Division, Shares, equals
from pal_slurm.policy.entitlement.level import CommonLevel


def makespan(division: Division) -> Shares:
    steps = np.where(division.runs, division.needs("steps"), 0.0)
    merged = equals(division, steps)
    level = CommonLevel(division, merged)
    answer = level.solve(steps[merged.first])
    return level.shares(answer, 1.0 / answer.value if 0 < answer.value < math.inf else 0.0)
