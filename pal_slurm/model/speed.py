"""The one equation. In: an application, GPU sets and their scores. Out: seconds per step.

    step_time(job, gpus) = base(app, gpu_model) * max over g in gpus of score(class(app), g) * comm(app, n, tier(gpus))
                           * beside(app, who has the same GPUs)                      1.0 alone: model/sharing.py

Daemon, simulator, guard and reports all predict speed with `step_time`; predicting it another way is a defect.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model.app import App
from pal_slurm.model.cluster import Cluster, FloatArray, Tier
from pal_slurm.model.placement import Placement
from pal_slurm.model.scores import ScoreTable

Gpus = tuple[int, ...]  # flat numbers: node * width + slot, ascending


@overload
def step_time(base: float, worst_score: float, comm: float, beside: float = 1.0) -> float: ...
@overload
def step_time(
    base: float | FloatArray, worst_score: FloatArray, comm: float | FloatArray, beside: float = 1.0
) -> FloatArray: ...
def step_time(
    base: float | FloatArray, worst_score: float | FloatArray, comm: float | FloatArray, beside: float = 1.0
) -> float | FloatArray:
    """Seconds per step, for one GPU set or for arrays of candidate sets."""
    return base * worst_score * comm * beside


def shared_comm(comm: float, rate: float) -> float:
    """The cost of a span whose links others use too: what is lost to communication takes 1/rate as long."""
    return comm if rate == 1.0 else 1.0 + (comm - 1.0) / rate


def base_of(app: App, model: str) -> float:
    """Seconds per step on a median GPU of that model; 1.0 where nobody measured it."""
    return app.base.get(model, 1.0)


def comm_of(app: App, tier: Tier | NDArray[Any]) -> Any:
    """The cost of the span: a factor per tier."""
    if isinstance(tier, np.ndarray):
        return np.asarray(app.comm)[tier]
    return app.comm[tier]


def minds_links(app: App, cluster: Cluster) -> bool:
    """Whether it runs slower on GPUs of one node that are not all linked directly, and some of this cluster are not."""
    return cluster.linked is not None and app.unlinked > app.comm[Tier.NODE]


class Factors(NamedTuple):
    """The equation's three factors for one GPU set, and its span."""

    base: float
    worst_score: float
    comm: float
    tier: Tier

    @property
    def step_time(self) -> float:
        return step_time(self.base, self.worst_score, self.comm)


class Speeds:
    """How fast any set of GPUs of one cluster is, by true scores or by what is known: about a microsecond a set."""

    def __init__(self, cluster: Cluster, scores: ScoreTable, *, as_bins: bool = False) -> None:
        """`as_bins`: GPUs of one bin count as equal."""
        self._cluster = cluster
        self._scores = scores
        values = scores.as_bins if as_bins else scores.score
        self._values: FloatArray = values.reshape(len(scores.classes), -1)
        self._lists: dict[str, list[float]] = {}  # the same as plain numbers: twice as fast for one set
        self._model: list[int] = [] if len(cluster.models) == 1 else cluster.gpu_model.reshape(-1).tolist()

    def values(self, cls: str) -> FloatArray:
        """The score of each GPU for a class, by flat number."""
        values: FloatArray = self._values[self._scores.index(cls)]
        return values

    def factors(self, app: App, gpus: Gpus) -> Factors:
        """Different models in one set run at the slowest base."""
        values = self._lists.get(app.cls)
        if values is None:
            values = self._lists[app.cls] = self.values(app.cls).tolist()
        cluster, models = self._cluster, self._cluster.models
        worst = max([values[g] for g in gpus])
        if len(models) == 1:
            base = base_of(app, models[0])
        else:
            base = max(base_of(app, models[m]) for m in {self._model[g] for g in gpus})
        width = cluster.width
        if gpus[0] // width == gpus[-1] // width:
            tier = Tier.GPU if len(gpus) == 1 else Tier.NODE
            if len(gpus) > 1 and minds_links(app, cluster):
                row = gpus[0] // width
                if not cluster.linked_within(row, [g - row * width for g in gpus]):
                    return Factors(base, worst, app.unlinked, tier)
        else:
            tier = cluster.tier_of([g // width for g in gpus], len(gpus))
        return Factors(base, worst, app.comm[tier], tier)

    def step(self, app: App, gpus: Gpus) -> float:
        """Seconds per step there."""
        return self.factors(app, gpus).step_time


def flat(placement: Placement, cluster: Cluster) -> Gpus:
    """Its GPUs as flat numbers."""
    width, index = cluster.width, cluster.node_index
    if len(placement.nodes) == 1:
        first = index[placement.nodes[0]] * width
        return tuple([first + slot for slot in placement.gpus[0]])
    pairs = zip(placement.nodes, placement.gpus, strict=True)
    return tuple(sorted([index[node] * width + slot for node, slots in pairs for slot in slots]))


def placement_of(gpus: Gpus, cluster: Cluster) -> Placement:
    """The same the other way round; `exact` where its slots are the same on each node."""
    by_row: dict[int, list[int]] = {}
    for gpu in gpus:
        by_row.setdefault(gpu // cluster.width, []).append(gpu % cluster.width)
    slots = tuple([tuple(slots) for slots in by_row.values()])
    return Placement(tuple([cluster.node_names[row] for row in by_row]), slots, len(set(slots)) == 1)


@lru_cache(maxsize=2)
def speeds_of(cluster: Cluster, scores: ScoreTable) -> Speeds:
    """The one table of a plan; clusters and tables are equal only to themselves."""
    return Speeds(cluster, scores)


def factors(app: App, placement: Placement, cluster: Cluster, scores: ScoreTable) -> Factors:
    """What the equation is made of on exactly these GPUs."""
    return speeds_of(cluster, scores).factors(app, flat(placement, cluster))


def predict(app: App, placement: Placement, cluster: Cluster, scores: ScoreTable, beside: float = 1.0) -> float:
    """Seconds per step of `app` on exactly these GPUs; `beside`: what another job on them costs it."""
    f = factors(app, placement, cluster, scores)
    return step_time(f.base, f.worst_score, f.comm, beside)
