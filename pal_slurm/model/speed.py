"""The one equation. In: an application, GPU sets and their scores. Out: seconds per step.

    step_time(job, gpus) = base(app, gpu_model) * max over g in gpus of score(class(app), g) * comm(app, n, tier(gpus))

Daemon, simulator, guard and reports all predict speed with `step_time`; predicting it another way is a defect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model.app import App
from pal_slurm.model.cluster import Cluster, FloatArray, Tier
from pal_slurm.model.placement import Placement
from pal_slurm.model.scores import ScoreTable


@overload
def step_time(base: float, worst_score: float, comm: float) -> float: ...
@overload
def step_time(base: float | FloatArray, worst_score: FloatArray, comm: float | FloatArray) -> FloatArray: ...
def step_time(
    base: float | FloatArray, worst_score: float | FloatArray, comm: float | FloatArray
) -> float | FloatArray:
    """Seconds per step, for one GPU set or for arrays of candidate sets."""
    return base * worst_score * comm


def base_of(app: App, model: str) -> float:
    """Seconds per step on a median GPU of that model; 1.0 where nobody measured it."""
    return app.base.get(model, 1.0)


def comm_of(app: App, tier: Tier | NDArray[Any]) -> Any:
    """The cost of the span: a factor per tier."""
    if isinstance(tier, np.ndarray):
        return np.asarray(app.comm)[tier]
    return app.comm[tier]


@dataclass(frozen=True, slots=True)
class Factors:
    """The equation's three factors for one placement, and its span."""

    base: float
    worst_score: float
    comm: float
    tier: Tier


def factors(app: App, placement: Placement, cluster: Cluster, scores: ScoreTable) -> Factors:
    """What the equation is made of on exactly these GPUs; different models in one set run at the slowest base."""
    cls = scores.index(app.cls)
    rows = [cluster.node_index[name] for name in placement.nodes]
    worst = 0.0
    base = 0.0
    for row, slots in zip(rows, placement.gpus, strict=True):
        columns = list(slots)
        worst = max(worst, float(scores.score[cls, row, columns].max()))
        base = max(base, max(base_of(app, cluster.models[m]) for m in cluster.gpu_model[row, columns]))
    tier = cluster.tier_of(tuple(rows), placement.n_gpus)
    return Factors(base, worst, float(comm_of(app, tier)), tier)


def predict(app: App, placement: Placement, cluster: Cluster, scores: ScoreTable) -> float:
    """Seconds per step of `app` on exactly these GPUs."""
    f = factors(app, placement, cluster, scores)
    return step_time(f.base, f.worst_score, f.comm)
