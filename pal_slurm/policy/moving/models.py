"""Other GPU models for those who run. In: a running mover, GPUs. Out: whether it may go there, how fast it is at least.

Only where its speeds are known on both models; a speed that is in doubt counts as slow as it may be. Which models its
user allows its `need` knows: a GRES type, a constraint, pal:same, pools that are dearer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pal_slurm.model import (
    BoolArray,
    Cluster,
    FloatArray,
    Gpus,
    IntArray,
    Speeds,
    Tier,
    base_of,
    minds_links,
    step_time,
)

if TYPE_CHECKING:
    from pal_slurm.policy.moving.value import RunsNow


NEVER = 1e9  # times as slow


class Sets(NamedTuple):
    """GPUs of running jobs, as many of each."""

    gpus: IntArray  # (all, GPUs)
    model: IntArray  # (all,)
    tier: IntArray  # (all,)
    unlinked: BoolArray  # (all,) on one node, and not all linked directly


class Between:
    """For one look."""

    def __init__(self, cluster: Cluster, speeds: Speeds) -> None:
        self._cluster, self._models, self._speeds = cluster, cluster.models, speeds
        self._of: list[int] = cluster.gpu_model.reshape(-1).tolist()
        self._there = np.unique(cluster.gpu_model[cluster.gpu_exists]).tolist() if len(cluster.models) > 1 else []

    def may_go(self, s: RunsNow, gpus: Gpus, *, own: bool = False) -> bool:
        """`own`: only within its own model."""
        models = {self._of[g] for g in gpus}
        return models == {s.model} or (not own and len(models) == 1 and bool(s.app.base))

    def step(self, s: RunsNow, gpus: Gpus) -> float:
        """Seconds per step on these."""
        step = self._speeds.step(s.app, gpus)
        if len(self._there) < 2:
            return step
        return step * max(self._doubted(s, model) for model in {self._of[g] for g in gpus})

    def values(self, s: RunsNow) -> FloatArray:
        """Scores of all GPUs for its class."""
        return self._speeds.values(s.app.cls)

    def sets(self, those: Sequence[RunsNow]) -> Sets:
        """What they have."""
        gpus = np.array([s.gpus for s in those])
        tier = np.array([int(s.now.tier) for s in those])
        unlinked = np.zeros(len(those), dtype=np.bool_)
        if self._cluster.linked is not None and gpus.shape[1] > 1:
            groups = self._cluster.linked.reshape(-1)[gpus]
            unlinked = (tier == Tier.NODE) & (groups != groups[:, :1]).any(axis=1)
        return Sets(gpus, np.array([s.model for s in those]), tier, unlinked)

    def steps(self, s: RunsNow, there: Sets) -> FloatArray:
        """(all,) seconds per step on each of these."""
        worst = self._speeds.values(s.app.cls)[there.gpus].max(axis=1)
        comm = np.array(s.app.comm)[there.tier]
        if minds_links(s.app, self._cluster):
            comm = np.where(there.unlinked, s.app.unlinked, comm)
        base = np.array([base_of(s.app, model) for model in self._models])
        doubted = np.array([self._doubted(s, model) if model in self._there else 1.0 for model in range(len(base))])
        steps: FloatArray = step_time(base[there.model], worst, comm) * doubted[there.model]
        return steps

    def bases(self, s: RunsNow) -> Iterator[tuple[int, float]]:
        """(model, its base there) of all that it could have; its own model first."""
        yield s.model, s.now.base
        for model in self._there if s.app.base else ():
            if model != s.model:
                yield model, s.app.base.get(self._models[model], np.inf) * self._doubted(s, model)

    def _doubted(self, s: RunsNow, model: int) -> float:
        if model == s.model:
            return 1.0
        known = self._models[model] in s.app.base and self._models[s.model] in s.app.base
        return 1.0 + s.app.trust(self._models[model]).doubt if known else NEVER
