"""Jobs that start without our leave. In: snapshots, what we let go. Out: whom they may keep waiting (P5).

A leased job has no place in Slurm's own queue: whoever is not leased (a reservation of another kind, `srun -I`, a
partition that we don't manage, a user who said StartTime=now) starts ahead of it, again and again. Where such jobs are
about, the head of the queue goes plain, so that Slurm itself reserves for it, and nobody declines what is free.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from pal_slurm.daemon.entries import Entries
from pal_slurm.model import BoolArray, Cluster, IntArray, Job, Snapshot
from pal_slurm.policy.turn import Turn, turn_of

KEPT_S = 3600.0  # a start that is older says nothing of those that wait now
Order = tuple[int, int, int, int]  # a place in Slurm's own order


@dataclass(frozen=True, slots=True)
class Rival:
    order: Order
    rows: IntArray  # nodes that it may have, or has; one array for all who may have the same
    key: float  # when it started; or, while it waits, how many GPUs it asks for


class _Near:
    """Those of some nodes. Asked for the last in Slurm's order of all whose key is on one side of a limit."""

    def __init__(self, rivals: Sequence[Rival], nodes: BoolArray, *, above: bool) -> None:
        touches: dict[int, bool] = {}
        for rival in rivals:
            if id(rival.rows) not in touches:
                touches[id(rival.rows)] = bool(nodes[rival.rows].any())
        near = sorted((r for r in rivals if touches[id(r.rows)]), key=lambda r: r.key, reverse=above)
        self._sign = -1.0 if above else 1.0
        self._keys = [self._sign * rival.key for rival in near]
        self._last = list(accumulate((rival.order for rival in near), max))

    def last(self, limit: float) -> Order | None:
        beyond = bisect_left(self._keys, self._sign * limit)
        return self._last[beyond - 1] if beyond else None


@dataclass
class Rivals:
    entries: Entries
    # What started before we looked was let go by an earlier pald, or ran before anybody waited.
    _first: float | None = None
    _view: Snapshot | None = None  # that nobody has asked about yet
    _lapsed: frozenset[int] = frozenset()
    _waiting: tuple[Rival, ...] = ()
    _begun: tuple[Rival, ...] = ()
    _near: dict[tuple[str, ...], tuple[_Near, _Near]] = field(default_factory=dict)

    def take_in(self, snapshot: Snapshot, lapsed: frozenset[int]) -> None:
        """`lapsed`: whose lease only ran out: they are leased again."""
        now = snapshot.taken
        self._first = now if self._first is None else max(self._first, now - KEPT_S)
        self._view, self._lapsed = snapshot, lapsed

    def _find(self, snapshot: Snapshot, lapsed: frozenset[int]) -> None:
        """In most cycles nobody asks."""
        now, cluster = snapshot.taken, snapshot.cluster
        first, short = self._first or 0.0, _short_of_cpus(cluster)
        waiting = [j for j in snapshot.pending if j.gpu_job and j.id not in lapsed and self._competes(j, now)]
        begun = [j for j in snapshot.running if (j.start or 0) > first and self._is_rival(j, short)]
        rows = {names: allowed(names, cluster).nonzero()[0] for names in {j.partitions for j in waiting}}
        self._waiting = tuple(Rival(j.order, rows[j.partitions], _gpus(j)) for j in waiting)
        self._begun = tuple(Rival(j.order, _held(j, cluster), float(j.start or 0)) for j in begun)
        self._view, self._near = None, {}

    def about(self, job: Job, since: float, cluster: Cluster) -> bool:
        """Whether one that comes after it in Slurm's order has started since, or waits beside it for fewer GPUs.

        One that waits for as many can take its turn once; then it has started. One that waits for fewer takes what
        comes free bit by bit, and may keep it for days.
        """
        if self._view is not None:
            self._find(self._view, self._lapsed)
        if not (self._waiting or self._begun):
            return False
        if job.partitions not in self._near:
            nodes = allowed(job.partitions, cluster)
            self._near[job.partitions] = (
                _Near(self._waiting, nodes, above=False),
                _Near(self._begun, nodes, above=True),
            )
        waiting, begun = self._near[job.partitions]
        mine = job.order
        return any(last is not None and last > mine for last in (waiting.last(_gpus(job)), begun.last(since)))

    def _competes(self, job: Job, now: float) -> bool:
        return turn_of(job, now)[0] is Turn.THEIRS and not job.reservation and not self.entries.started(job)

    def _is_rival(self, job: Job, short: frozenset[str]) -> bool:
        """Of those without GPUs only one on a node whose GPUs have no CPUs left is in anybody's way."""
        if job.reservation or self.entries.started(job):
            return False
        return job.gpu_job or not short.isdisjoint(job.nodes)


def watched(rivals: Rivals, cluster: Cluster) -> Callable[[Job, float], bool]:
    """As a plan asks."""
    return lambda job, since: rivals.about(job, since, cluster)


def allowed(partitions: Iterable[str], cluster: Cluster) -> BoolArray:
    """Their nodes."""
    masks = [cluster.partitions[name] for name in partitions if name in cluster.partitions]
    return np.logical_or.reduce(masks) if masks else np.ones(cluster.n_nodes, dtype=np.bool_)


def _short_of_cpus(cluster: Cluster) -> frozenset[str]:
    """Nodes with fewer CPUs free than GPUs."""
    rows = (cluster.cpus_free < cluster.gpu_free.sum(axis=1)).nonzero()[0]
    return frozenset(cluster.node_names[row] for row in rows.tolist())


def _held(job: Job, cluster: Cluster) -> IntArray:
    return np.array([cluster.node_index[name] for name in job.nodes if name in cluster.node_index], dtype=np.int64)


def _gpus(job: Job) -> float:
    """The least that it asks for; what can't be told counts as one."""
    return float(max(1, job.shape.least_gpus if job.shape else 1))
