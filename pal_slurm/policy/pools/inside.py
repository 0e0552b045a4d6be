"""The GPUs of one pool, and who holds which. In: who comes and goes. Out: GPU sets of all that run there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from pal_slurm.model import Cluster, Gpus, ScoreTable
from pal_slurm.policy.moving.assigner import Assigner, Claim
from pal_slurm.policy.seams import Contender


class GpuPool:
    def __init__(self, cluster: Cluster, scores: ScoreTable, model: int, move_cost_s: float) -> None:
        mine = cluster.gpu_exists & (cluster.gpu_model == model)
        self._cluster = replace(cluster, gpu_exists=mine, gpu_free=mine.copy())
        self._move_cost_s = move_cost_s
        self.size = int(mine.sum())
        self._all: list[int] = np.flatnonzero(mine.ravel()).tolist()
        self._mine = frozenset(self._all)
        self._here: dict[int, Contender] = {}
        self._held: dict[int, Gpus] = {}
        self.settled: dict[int, Gpus] | None = {}  # where the last plan put whom; None: it holds no longer
        self.learn(scores)

    def learn(self, scores: ScoreTable) -> None:
        mine = self._cluster.gpu_exists
        self._alike = self._cluster.width == 1 and all(np.ptp(table[mine]) == 0 for table in scores.score)
        self._assigner = Assigner(self._cluster, scores, self._move_cost_s)
        self.settled = None

    def has(self, gpus: Gpus) -> bool:
        return gpus[0] in self._mine

    def held(self) -> Iterable[tuple[int, Gpus]]:
        return self._held.items()

    def came(self, here: Contender, held: Gpus) -> None:
        """`held`: what it has of this pool already, and keeps."""
        self._here[here.job.id] = here
        if held:
            self._held[here.job.id] = held

    def left(self, job: int) -> None:
        del self._here[job]
        self._held.pop(job, None)

    def places(self, now: float) -> Mapping[int, Gpus]:
        """All that run here; who may be moved goes elsewhere in the pool where that pays."""
        if self._held != self.settled or len(self._held) < len(self._here):
            self._held = self._in_any() if self._alike else self._by_plan(now)
            self.settled = dict(self._held)
        return self._held

    def _in_any(self) -> dict[int, Gpus]:
        """Where no GPU is better than another, and none is nearer."""
        taken = {gpu for gpus in self._held.values() for gpu in gpus}
        free = [gpu for gpu in self._all if gpu not in taken]
        where = dict(self._held)
        for job in sorted(self._here.keys() - where.keys()):
            n = self._here[job].gpus
            where[job], free = tuple(free[:n]), free[n:]
        return where

    def _by_plan(self, now: float) -> dict[int, Gpus]:
        held = self._held
        claims = [
            Claim(job, here.gpus, here.app, here.progress(now).rest_steps, held.get(job, ()), here.movable)
            for job, here in sorted(self._here.items())
        ]
        return self._assigner.plan(claims)
