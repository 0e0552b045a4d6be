"""`max-min`: the least of all (rate, over that with an equal share of everything) is as high as can be; by weight.

With equal weights it is Gavel's LAS. GPUs count: who holds four has four times the share. It says nothing of what those
get who could have more without anybody having less: `water-filling` does.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.policy.entitlement.division import Alike, Division, Shares, equals
from pal_slurm.policy.entitlement.level import CommonLevel


def max_min(division: Division) -> Shares:
    merged = merge(division)
    level = CommonLevel(division, merged)
    answer = level.solve(needs(division)[merged.first])
    return level.shares(answer, answer.value)


def merge(division: Division) -> Alike:
    return equals(division, division.weights)


def needs(division: Division) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The rate of each job at level 1. Whoever can run nowhere, or weighs nothing, holds nobody down."""
    need = division.weights * division.equal / division.sizes
    return np.where(division.runs, need, 0.0)
