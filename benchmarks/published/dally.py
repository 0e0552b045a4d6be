"""`artifact/dally(LEASE,H,RACK,CLUSTER)`: Dally whole, with leases that end. Timers: `patience: dally`.

Jobs hold GPUs for LEASE seconds. When a lease ends the job's GPUs go back, and all jobs without GPUs are offered what
is free, in the order (`nw-sens`: newcomers, then the jobs that were slowed most). Each takes or skips, and a skip holds
up nobody: a node at once, a rack after T_rack leases, anything after T_nw, first fit. The clock begins anew when a job
comes, starts and loses its GPUs: a job on a rack that could have a node, and finds none at the end of its lease, waits
T_rack again.

Nothing is reserved for anybody. A job that is offered no narrower span than the one it has just given back keeps its
GPUs, where these are still free at its turn; the author's code takes the first fit.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.published.admission import ActiveJob
from pal_slurm.model import BoolArray, Cluster, Gpus, ScoreTable, Tier
from pal_slurm.policy.patience.dally import Dally, Timers
from pal_slurm.policy.seams import Lessons, Order


class Leases:
    """Jobs and their leases on one cluster."""

    def __init__(self, timers: Dally, order: Order, cluster: Cluster) -> None:
        self._timers, self._order, self._cluster = timers, order, cluster
        self._usable: BoolArray = cluster.gpu_exists & cluster.node_ok[:, None]
        per_node = self._usable.sum(axis=1)
        self._node = int(per_node.max(initial=0))
        self._rack = int(np.bincount(cluster.rack, weights=per_node).max(initial=0)) if len(per_node) else 0
        self._here: dict[int, ActiveJob] = {}
        self._where: dict[int, Gpus] = {}
        self._keys: dict[int, tuple[float, ...]] = {}  # of jobs without GPUs
        self._clock: dict[int, float] = {}  # since it came, started or lost its GPUs
        self._lessons: Lessons = ()
        self._changed = False
        self._timers_of: tuple[Lessons, dict[int, Timers]] = ((), {})
        self._nowhere: set[tuple[Tier, int]] = set()  # what has found no room in this plan, and finds none later in it
        self.wake_at = math.inf

    def arrive(self, here: ActiveJob) -> None:
        job = here.job.id
        self._here[job] = here
        self._clock[job] = float(here.job.start or here.job.submit) if here.held else float(here.job.submit)
        if here.held:
            self._where[job] = here.held
        self._changed = True

    def ended(self, here: ActiveJob) -> None:
        del self._here[here.job.id], self._clock[here.job.id]
        self._where.pop(here.job.id, None)
        self._keys.pop(here.job.id, None)
        self._changed = True

    def learn(self, scores: ScoreTable) -> None:
        """It tells no GPU from another."""

    def act(self, now: float) -> dict[int, Gpus] | None:
        if not self._changed and now < self.wake_at:
            return None
        self._changed = False
        given_back = self._ends(now)
        free = self._usable.copy()
        for gpus in self._where.values():
            free.ravel()[list(gpus)] = False
        times = [math.inf]
        self._nowhere.clear()
        left = int(free.sum())
        for job in sorted((job for job in self._here if job not in self._where), key=lambda job: self._key(job, now)):
            if not left:
                break
            gpus = self._take(job, free, now, given_back.get(job, ()), times)
            if gpus:
                free.ravel()[list(gpus)] = False
                self._where[job] = gpus
                self._clock[job] = now
                left -= len(gpus)
                self._keys.pop(job, None)
        times += [self._clock[job] + self._timers.lease_s for job in self._where if self._here[job].movable]
        self.wake_at = min(times)
        return dict(self._where)

    def _ends(self, now: float) -> dict[int, Gpus]:
        """Jobs whose leases have ended have no GPUs any more."""
        lease_s = self._timers.lease_s
        over = [job for job in self._where if self._here[job].movable and now >= self._clock[job] + lease_s]
        for job in over:
            self._clock[job] = now
        return {job: self._where.pop(job) for job in over}

    def _key(self, job: int, now: float) -> tuple[float, ...]:
        """It stays as it is while the job has no GPUs."""
        key = self._keys.get(job)
        if key is None:
            here = self._here[job]
            progress = here.progress(now)
            key = self._keys[job] = self._order.key(here.job, progress if progress.attained_s > 0.0 else None)
        return key

    def _take(self, job: int, free: BoolArray, now: float, before: Gpus, times: list[float]) -> Gpus:
        """Nothing: it skips. `times`: when it would take more."""
        gpus, clock, lease_s = self._here[job].gpus, self._clock[job], self._timers.lease_s
        timers = self._tuned(gpus)
        after = (
            (Tier.NODE, 0.0 if gpus <= self._node else math.inf),
            (Tier.RACK, 0.0 if gpus > self._node else timers.rack * lease_s),
            (Tier.CLUSTER, 0.0 if gpus > self._rack else timers.cluster * lease_s),
        )
        for tier, wait_s in after:
            if now < clock + wait_s:
                times.append(clock + wait_s)
            elif found := self._fit(tier, gpus, free):
                self._lessons = self._timers.noted(self._lessons, [(tier, gpus, (now - clock) / lease_s)], now)
                return before if before and self._tier(before) <= tier and free.ravel()[list(before)].all() else found
        return ()

    def _tuned(self, gpus: int) -> Timers:
        if self._timers_of[0] is not self._lessons:
            self._timers_of = self._lessons, {}
        known = self._timers_of[1]
        if gpus not in known:
            known[gpus] = self._timers.tuned(gpus, self._lessons)
        return known[gpus]

    def _fit(self, tier: Tier, gpus: int, free: BoolArray) -> Gpus:
        """The first node, or rack, with so many; of it the lowest GPUs."""
        if (tier, gpus) in self._nowhere:
            return ()
        per_node = free.sum(axis=1)
        if tier is Tier.CLUSTER:
            rows = np.arange(len(per_node))
        else:
            place = np.arange(len(per_node)) if tier is Tier.NODE else self._cluster.rack
            enough = np.flatnonzero(np.bincount(place, weights=per_node) >= gpus)
            rows = np.flatnonzero(place == enough[0]) if len(enough) else np.arange(0)
        if int(per_node[rows].sum()) < gpus:
            self._nowhere.add((tier, gpus))
            return ()
        within = np.zeros_like(free)
        within[rows] = free[rows]
        return tuple(np.flatnonzero(within.ravel())[:gpus].tolist())

    def _tier(self, gpus: Gpus) -> Tier:
        width = self._cluster.width
        return max(Tier.NODE, self._cluster.tier_of(sorted({gpu // width for gpu in gpus}), len(gpus)))
