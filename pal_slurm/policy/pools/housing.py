"""Who runs in which pool, and on which of its GPUs. In: who comes and goes, a pool for each. Out: GPU sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pal_slurm.model import Cluster, Gpus, ScoreTable
from pal_slurm.policy.pools.claims import PoolClaim
from pal_slurm.policy.pools.inside import GpuPool
from pal_slurm.policy.seams import Contender


class Housing:
    """The pools of one cluster."""

    def __init__(self, cluster: Cluster, scores: ScoreTable, move_cost_s: float) -> None:
        self._pools = [GpuPool(cluster, scores, model, move_cost_s) for model in range(len(cluster.models))]
        self.gpus = [pool.size for pool in self._pools]
        self.pool_of: dict[int, int] = {}  # who runs
        self.since: dict[int, float] = {}  # the same: the present start, where we made it
        self._before: dict[int, float] = {}  # the same: seconds that it had run by then
        self._claims: dict[int, PoolClaim] = {}  # of who runs: the same until it goes elsewhere

    def learn(self, scores: ScoreTable) -> None:
        for pool in self._pools:
            pool.learn(scores)

    def arrived(self, here: Contender) -> None:
        """It may run already."""
        if here.held:
            model = self.model_of(here.held)
            self.pool_of[here.job.id] = model
            self._pools[model].came(here, here.held)

    def holder(self, gpus: Gpus) -> int | None:
        """Who has just these."""
        return next((job for pool in self._pools for job, held in pool.held() if held == gpus), None)

    def model_of(self, gpus: Gpus) -> int:
        return next(j for j, pool in enumerate(self._pools) if pool.has(gpus))

    def left(self, job: int) -> None:
        self._pools[self.pool_of.pop(job)].left(job)
        self.since.pop(job, None)
        self._before.pop(job, None)
        self._claims.pop(job, None)

    def claim(self, here: Contender, rates: tuple[float, ...], now: float) -> PoolClaim:
        job = here.job.id
        known = self._claims.get(job)
        if known is not None and known.rates is rates:
            return known
        pool = self.pool_of.get(job, -1)
        if pool < 0:
            return PoolClaim(job, here.gpus, rates, here.movable)
        since, before_s = self.since.get(job), self._before.get(job, 0.0)
        if since is None:  # it ran when it came
            since = here.job.start or now
            before_s = max(here.progress(now).attained_s - (now - since), 0.0)
        made = PoolClaim(job, here.gpus, rates, here.movable, pool, since - before_s, since + here.limit_s)
        self._claims[job] = made
        return made

    def put(self, then: Mapping[int, tuple[Contender, int]], now: float) -> dict[int, Gpus]:
        """All that are to run now, each in its pool; the GPUs of each. Who left its pool is to be told of before."""
        for job, (here, pool) in then.items():
            if job not in self.pool_of:
                self.pool_of[job] = pool
                self._starts(here, now)
                self._pools[pool].came(here, ())
        where: dict[int, Gpus] = {}
        for pool_of_gpus in self._pools:
            where |= pool_of_gpus.places(now)
        for job, gpus in where.items():
            if then[job][0].held not in ((), gpus):
                self._starts(then[job][0], now)
        return where

    def _starts(self, here: Contender, now: float) -> None:
        self.since[here.job.id], self._before[here.job.id] = now, here.progress(now).attained_s
        self._claims.pop(here.job.id, None)

    def settled(self) -> Iterable[tuple[int, Gpus]]:
        return (held for pool in self._pools for held in (pool.settled or {}).items())

    def recall(self, settled: Mapping[int, Gpus]) -> None:
        for pool in self._pools:
            pool.settled = {job: gpus for job, gpus in settled.items() if pool.has(gpus)}
