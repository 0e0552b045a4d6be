"""`pal` on GPUs of several models, as a scheduler of the engine. In: arrivals and ends. Out: starts, moves, stops.

policy/pools says who runs and in which pool; policy/moving/assigner.py on which GPUs of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pal_slurm.model import Cluster, Gpus, ScoreTable
from pal_slurm.policy.moving.assigner import Assigner, Claim
from pal_slurm.policy.pools.claims import PoolClaim, relative_rates
from pal_slurm.policy.pools.pricing import Chooser, Market
from pal_slurm.policy.pools.ratebook import RateBook
from pal_slurm.policy.pools.where import assign
from pal_slurm.policy.pools.who import choose, level
from pal_slurm.policy.seams import Order
from pal_slurm.sim.engine import NEVER, Run, Stage

SHOWN_S = 300.0  # a job that has run for so long has shown how fast it is
Movable = Callable[[Run], bool]


class InPools:
    """Who, then where, then on which GPUs; jobs that don't let themselves be moved choose by price."""

    wake_at = NEVER
    restless = False

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        known: ScoreTable,
        order: Order,
        *,
        move_cost_s: float,
        moves: bool,
        levels: bool,
        learns: bool = False,
    ) -> None:
        """`levels`: the order is least attained service. `moves`: jobs that may be moved are.

        `learns`: nobody tells how fast applications are; it is seen as they run.
        """
        self.name = name
        self._order, self._levels, self._moves = order, levels, moves
        self._models, self._cost_s = cluster.models, move_cost_s
        self._runs: dict[int, Run] = {}
        self._rates: dict[int, tuple[float, ...]] = {}  # by job
        self._pools = [GpuPool(cluster, known, j, move_cost_s) for j in range(len(cluster.models))]
        self._gpus = [pool.size for pool in self._pools]
        self._pool_of: dict[int, int] = {}  # who runs
        self._market = Market(self._gpus)
        self._book = RateBook(cluster.models) if learns else None
        self._read = -1  # the version of the book that rates are of
        self._seen: set[tuple[int, int]] = set()  # job and pool that the book knows
        self._bound = 0  # jobs here that can't be moved

    def arrive(self, run: Run) -> None:
        rates = self._rates_of(run)
        self._runs[run.work.id] = run
        self._rates[run.work.id] = rates
        self._market.arrived(rates, run.work.gpus)
        self._bound += not self._movable(run)

    def ended(self, run: Run, gpus: Gpus) -> None:
        job = run.work.id
        self._saw(run, run.end)
        self._pools[self._pool_of.pop(job)].left(job)
        self._market.ended(_work_s(run, 0.0))
        self._bound -= not self._movable(run)
        del self._runs[job], self._rates[job]

    def learn(self, known: ScoreTable) -> None:
        for pool in self._pools:
            pool.learn(known)

    def act(self, stage: Stage) -> None:
        now = stage.now
        self._look(now)
        claims = [self._claim(run, now) for run in self._in_order(now)]
        chooser = None
        if self._bound:
            chooser = Chooser(self._market, len(self._runs) - len(self._pool_of))
        chosen = choose(claims, self._gpus, chooser)
        pools = assign(chosen, self._gpus, self._cost_s)
        then = {claim.job: pool for claim, pool in zip(chosen, pools, strict=True) if pool >= 0}
        for job, pool in list(self._pool_of.items()):
            if then.get(job) != pool:
                self._pools[pool].left(job)
                del self._pool_of[job]
                if job not in then:
                    stage.stop(self._runs[job])
        for job, pool in then.items():
            if job not in self._pool_of:
                self._pool_of[job] = pool
                self._pools[pool].came(job)
        for pool_of_gpus in self._pools:
            for job, gpus in pool_of_gpus.places(self._runs, now, self._movable).items():
                if self._runs[job].gpus != gpus:
                    stage.start(self._runs[job], gpus)

    def _rates_of(self, run: Run) -> tuple[float, ...]:
        if self._book is None:
            return relative_rates(run.work.app, self._models)
        can = relative_rates(run.work.app, self._models)  # where it does not run at all its user has said
        told = self._book.rates((run.work.app.name, run.work.gpus), run.work.user)
        return tuple(rate.hoped if there else 0.0 for rate, there in zip(told, can, strict=True))

    def _look(self, now: float) -> None:
        """What running jobs have shown."""
        if self._book is None:
            return
        for job in self._pool_of:
            self._saw(self._runs[job], now)
        if self._book.version != self._read:
            self._read = self._book.version
            for job, run in self._runs.items():
                self._rates[job] = self._rates_of(run)

    def _saw(self, run: Run, now: float) -> None:
        job = run.work.id
        at = (job, self._pool_of.get(job, -1))
        if self._book is not None and at not in self._seen and now - run.since >= SHOWN_S:
            self._seen.add(at)
            self._book.saw((run.work.app.name, run.work.gpus), at[1], run.work.user, run.step)

    def _movable(self, run: Run) -> bool:
        return self._moves and run.work.requeue

    def _in_order(self, now: float) -> list[Run]:
        if not self._levels:
            key = self._order.key
            return sorted(self._runs.values(), key=lambda run: key(run.job, run.progress(now)))
        return sorted(
            self._runs.values(),
            key=lambda run: (level(_work_s(run, now)), not run.gpus, run.work.submit, run.work.id),
        )

    def _claim(self, run: Run, now: float) -> PoolClaim:
        job = run.work.id
        ran_s = now - run.started if run.gpus else 0.0
        limit_s = math.inf if run.work.limit_s is None else max(run.work.limit_s - ran_s, 0.0)
        return PoolClaim(
            job, run.work.gpus, self._rates[job], self._movable(run), self._pool_of.get(job, -1), ran_s, limit_s
        )


def _work_s(run: Run, now: float) -> float:
    """What it has done, in GPU seconds on the GPUs that are best for it."""
    done = run.work.steps - (run.steps_left(now) if run.gpus else run.steps)
    return done * min(run.work.app.base.values(), default=1.0) * run.work.gpus


class GpuPool:
    """The GPUs of one model, and who holds which."""

    def __init__(self, cluster: Cluster, known: ScoreTable, model: int, move_cost_s: float) -> None:
        mine = cluster.gpu_exists & (cluster.gpu_model == model)
        self._cluster = replace(cluster, gpu_exists=mine, gpu_free=mine.copy())
        self._move_cost_s = move_cost_s
        self.size = int(mine.sum())
        self._all = np.flatnonzero(mine.ravel()).tolist()
        self._here: set[int] = set()
        self._held: dict[int, Gpus] = {}
        self._changed = False
        self.learn(known)

    def learn(self, known: ScoreTable) -> None:
        mine = self._cluster.gpu_exists
        self._alike = self._cluster.width == 1 and all(np.ptp(table[mine]) == 0 for table in known.score)
        self._assigner = Assigner(self._cluster, known, self._move_cost_s)
        self._exists = self._assigner.exists
        self._changed = True

    def came(self, job: int) -> None:
        self._here.add(job)
        self._changed = True

    def left(self, job: int) -> None:
        self._here.discard(job)
        self._held.pop(job, None)
        self._changed = True

    def places(self, runs: dict[int, Run], now: float, movable: Movable) -> dict[int, Gpus]:
        """New ones of those who came or had better go elsewhere in the pool."""
        if not self._changed:
            return {}
        self._changed = False
        stay = [job for job in self._held if not movable(runs[job])]
        taken = {gpu for job in (self._held if self._alike else stay) for gpu in self._held[job]}
        if self._alike:
            free = [gpu for gpu in self._all if gpu not in taken]
            found = {}
            for job in sorted(self._here - self._held.keys()):
                n = runs[job].work.gpus
                found[job], free = tuple(free[:n]), free[n:]
        else:
            claims = [
                Claim(job, runs[job].work.gpus, runs[job].work.app, runs[job].steps_left(now), self._held.get(job, ()))
                for job in sorted(self._here.difference(stay))
            ]
            open_ = self._exists.copy()
            open_[list(taken)] = False
            self._assigner.exists = open_
            found = self._assigner.plan(claims)
        self._held |= found
        return found
