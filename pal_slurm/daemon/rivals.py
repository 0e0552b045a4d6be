"""Jobs that start without our leave. In: snapshots, what we let go. Out: whom they may keep waiting (P5).

A leased job has no place in Slurm's own queue: whoever is not leased (a reservation of another kind, `srun -I`, a
partition that we don't manage, a user who said StartTime=now) starts ahead of it, again and again. Where such jobs are
about, the head of the queue goes plain, so that Slurm itself reserves for it, and nobody declines what is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from pal_slurm.model import BoolArray, Cluster, Job, Snapshot
from pal_slurm.policy.turn import Turn, turn_of

KEPT_S = 3600.0  # a start that is older says nothing of those that wait now
JobKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rival:
    """Waiting for Slurm to start it (`start` infinity), or started by it."""

    start: float
    turn: tuple[int, int, int]  # its place in Slurm's own order
    nodes: BoolArray  # that it may have, or has


@dataclass
class Rivals:
    _ours: set[JobKey] = field(default_factory=set)  # what we let go
    _found: tuple[Rival, ...] = ()
    _first: float | None = (
        None  # what started before we looked was let go by an earlier pald, or ran before anybody waited
    )

    def let_go(self, jobs: Iterable[JobKey]) -> None:
        """These starts are ours; of an array's task the array's number is enough."""
        self._ours.update(jobs)

    def look(self, snapshot: Snapshot, lapsed: frozenset[int]) -> None:
        """`lapsed`: whose lease only ran out: they are leased again."""
        now, cluster = snapshot.taken, snapshot.cluster
        self._first = now if self._first is None else max(self._first, now - KEPT_S)
        here = {key for job in (*snapshot.pending, *snapshot.running) for key in _keys(job)}
        self._ours &= here
        short = _short_of_cpus(cluster)
        waiting = [j for j in snapshot.pending if j.gpu_job and j.id not in lapsed and self._competes(j, now)]
        begun = [j for j in snapshot.running if (j.start or 0) > self._first and self._is_rival(j, short)]
        self._found = (
            *(Rival(math.inf, _turn(job), allowed(job, cluster)) for job in waiting),
            *(Rival(float(job.start or 0), _turn(job), _held(job, cluster)) for job in begun),
        )

    def about(self, job: Job, since: float, cluster: Cluster) -> bool:
        """Whether one that comes after it in Slurm's order waits beside it, or has started since."""
        nodes = None
        for rival in self._found:
            if rival.start > since and rival.turn > _turn(job):
                nodes = allowed(job, cluster) if nodes is None else nodes
                if bool((rival.nodes & nodes).any()):
                    return True
        return False

    def _competes(self, job: Job, now: float) -> bool:
        return turn_of(job, now)[0] is Turn.THEIRS and not job.reservation and not self._is_ours(job)

    def _is_rival(self, job: Job, short: frozenset[str]) -> bool:
        """Of those without GPUs only one on a node whose GPUs have no CPUs left is in anybody's way."""
        if job.reservation or self._is_ours(job):
            return False
        return job.gpu_job or not short.isdisjoint(job.nodes)

    def _is_ours(self, job: Job) -> bool:
        return any(key in self._ours for key in _keys(job))


def allowed(job: Job, cluster: Cluster) -> BoolArray:
    """The nodes of its partitions."""
    masks = [cluster.partitions[name] for name in job.partitions if name in cluster.partitions]
    return np.logical_or.reduce(masks) if masks else np.ones(cluster.n_nodes, dtype=np.bool_)


def _short_of_cpus(cluster: Cluster) -> frozenset[str]:
    """Nodes with fewer CPUs free than GPUs."""
    rows = (cluster.cpus_free < cluster.gpu_free.sum(axis=1)).nonzero()[0]
    return frozenset(cluster.node_names[row] for row in rows.tolist())


def _held(job: Job, cluster: Cluster) -> BoolArray:
    mask = np.zeros(cluster.n_nodes, dtype=np.bool_)
    mask[[cluster.node_index[name] for name in job.nodes if name in cluster.node_index]] = True
    return mask


def _turn(job: Job) -> tuple[int, int, int]:
    return (-job.priority, job.submit, job.id)


def _keys(job: Job) -> tuple[JobKey, ...]:
    return (job.key,) if job.array_id in (None, job.id) else (job.key, (job.array_id or 0, job.submit))
