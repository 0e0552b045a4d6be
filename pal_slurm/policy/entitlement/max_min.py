"""`max-min`: the least of all (rate, over that with an equal share of everything) is as high as can be; by weight.

With equal weights it is Gavel's LAS. GPUs count: who holds four has four times the share. It says nothing of what those
get who could have more without anybody having less: `water-filling` does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.policy.entitlement.division import Alike, Division, Shares, equals
from pal_slurm.policy.entitlement.level import CommonLevel


def max_min(division: Division) -> Shares:
    merged = merge(division)
    level = CommonLevel(division, merged)
    answer = level.solve(needs(division)[merged.first])
    return level.shares(answer, answer.value)


def central(division: Division) -> Shares:
    """The same level; of all optima one far from every bound, as an interior point method leaves it."""
    merged = merge(division)
    level = CommonLevel(division, merged, interior=True)
    answer = level.solve(needs(division)[merged.first])
    return level.shares(answer, answer.value)


class PairShares(NamedTuple):
    """What jobs are owed alone, and beside each other."""

    alone: FloatArray  # (jobs, pools) of its time
    beside: FloatArray  # (jobs, jobs, pools) of the time of both; each pair stands there twice


def central_pairs(division: Division) -> PairShares:
    """The same with GPUs that any two of one size may share; equal jobs and equal pairs get the same."""
    merged = merge(division)
    level = CommonLevel(division, merged, interior=True)
    doing, of, many = level.doing, merged.of, merged.many
    spent = np.maximum(level.solve(needs(division)[merged.first]).columns[: len(doing.pool)], 0.0)
    n, pools = len(many), len(division.gpus)
    alone, beside = np.zeros((n, pools)), np.zeros((n, n, pools))
    same, two = doing.jobs > 1, doing.other >= 0
    single = ~same & ~two
    alone[doing.one[single], doing.pool[single]] = spent[single] / many[doing.one[single]]
    a = doing.one[same]
    beside[a, a, doing.pool[same]] = spent[same] / (many[a] * (many[a] - 1) / 2)
    a, b, pool = doing.one[two], doing.other[two], doing.pool[two]
    beside[a, b, pool] = beside[b, a, pool] = spent[two] / (many[a] * many[b])
    by_job: FloatArray = beside[of[:, None], of[None, :]]
    by_job[np.arange(len(of)), np.arange(len(of))] = 0.0  # nobody shares with himself
    return PairShares(alone[of], by_job)


def merge(division: Division) -> Alike:
    return equals(division, division.weights)


def needs(division: Division) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The rate of each job at level 1. Whoever can run nowhere, or weighs nothing, holds nobody down."""
    need = division.weights * division.equal / division.sizes
    return np.where(division.runs, need, 0.0)
