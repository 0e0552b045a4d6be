"""One job as pools see it. In: its app, its GPUs, where it is. Out: a PoolClaim: its speeds, what binds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pal_slurm.model import App, FloatArray, base_of

LEAST_REST_S = 1800.0  # a job that has just begun is expected to go on for so long


def relative_rates(app: App, models: Sequence[str]) -> tuple[float, ...]:
    """How fast it is on each model's median GPU, over the fastest; by the equation's base.

    Who has bases for some models only can't run on the others. Where nothing is known all models count alike.
    """
    told = [app.base.get(model) for model in models]
    if not any(told):
        return tuple(min(base_of(app, m) for m in models) / base_of(app, model) for model in models)
    best = min(base for base in told if base)
    return tuple(best / base if base else 0.0 for base in told)


class PoolClaim(NamedTuple):
    """A job that runs or waits."""

    job: int
    gpus: int
    rates: tuple[float, ...]  # by pool, over its best; 0: not there
    movable: bool  # while it runs
    pool: int = -1  # where it runs; -1: it waits
    began: float = math.inf  # it would have, had it run all its time until now in one
    ends: float = math.inf  # at latest, by its limit

    @property
    def fixed(self) -> bool:
        """It stays where it is."""
        return self.pool >= 0 and not self.movable


def rest_s(began: FloatArray, ends: FloatArray, now: float) -> FloatArray:
    """What jobs are expected to go on for: who has run for long goes on for long."""
    rest: FloatArray = np.maximum(np.minimum(ends - now, np.maximum(LEAST_REST_S, now - began)), 0.0)
    return rest
