"""Which jobs run in which pool (the GPUs of one model), and where in it. In: a pool for each job. Out: GPU sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from benchmarks.published.admission import ActiveJob
from benchmarks.published.reassign import Assigner, Claim
from pal_slurm.model import Cluster, Gpus, ScoreTable


class OnePool:
    """The GPUs of one pool, and the jobs that hold them."""

    def __init__(self, cluster: Cluster, scores: ScoreTable, model: int, move_cost_s: float) -> None:
        mine = cluster.gpu_exists & (cluster.gpu_model == model)
        self._cluster = replace(cluster, gpu_exists=mine, gpu_free=mine.copy())
        self._move_cost_s = move_cost_s
        self.size = int(mine.sum())
        self._all: list[int] = np.flatnonzero(mine.ravel()).tolist()
        self._here: dict[int, ActiveJob] = {}
        self._held: dict[int, Gpus] = {}
        self._settled: dict[int, Gpus] | None = {}  # where the last plan put whom; None: it holds no longer
        self.learn(scores)

    def learn(self, scores: ScoreTable) -> None:
        mine = self._cluster.gpu_exists
        self._alike = self._cluster.width == 1 and all(np.ptp(table[mine]) == 0 for table in scores.score)
        self._assigner = Assigner(self._cluster, scores, self._move_cost_s)
        self._settled = None

    def add(self, here: ActiveJob) -> None:
        self._here[here.job.id] = here

    def remove(self, job: int) -> None:
        del self._here[job]
        self._held.pop(job, None)

    def places(self, now: float) -> Mapping[int, Gpus]:
        """All that run here; a job that may be moved goes elsewhere in the pool where that pays."""
        if self._held != self._settled or len(self._held) < len(self._here):
            self._held = self._in_any() if self._alike else self._by_plan(now)
            self._settled = dict(self._held)
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


class PoolPlacement:
    """The pools of one cluster."""

    def __init__(self, cluster: Cluster, scores: ScoreTable, move_cost_s: float) -> None:
        self._pools = [OnePool(cluster, scores, model, move_cost_s) for model in range(len(cluster.models))]
        self.gpus = [pool.size for pool in self._pools]
        self.pool_of: dict[int, int] = {}  # of the jobs that run

    def learn(self, scores: ScoreTable) -> None:
        for pool in self._pools:
            pool.learn(scores)

    def remove(self, job: int) -> None:
        self._pools[self.pool_of.pop(job)].remove(job)

    def put(self, then: Mapping[int, tuple[ActiveJob, int]], now: float) -> dict[int, Gpus]:
        """`then`: all jobs that are to run now, each with its pool; the GPUs of each. Jobs that go are told before."""
        for job, (here, pool) in then.items():
            if job not in self.pool_of:
                self.pool_of[job] = pool
                self._pools[pool].add(here)
        where: dict[int, Gpus] = {}
        for pool_of_gpus in self._pools:
            where |= pool_of_gpus.places(now)
        return where
