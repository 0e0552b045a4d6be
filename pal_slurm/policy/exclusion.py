"""On which nodes a waiting job should not be put, where that is all that can be said. In: a snapshot. Out: Exclusions.

For sites where no job waits for us: Slurm starts each one when it likes, on the nodes that its list leaves open. A job
is kept off nodes that would be slower for it than the middle of those that it may have; so at least half of them stay
open. Nobody is kept off a cheap model where a dearer one is open to it that pools.dearer would not have it given. A
slow node that comes free sooner is worth declining only for as long as it would cost the job, by the one equation, and
only where others are due by then at latest, by the time limits of the jobs that hold them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import comb
from typing import NamedTuple

import numpy as np

from pal_slurm.model import (
    App,
    BoolArray,
    Cluster,
    FloatArray,
    Job,
    Knowledge,
    RunTimes,
    Snapshot,
    Waits,
    base_of,
    step_time,
)
from pal_slurm.policy.needs import Need, Needs

FRONT = 200  # jobs that come next; who waits far behind is nobody's turn yet, and costs no edit
SPARE = 2  # times the nodes that it needs stay open, and are up
SOON = (Waits.UNSEEN, Waits.TURN, Waits.ROOM)


@dataclass(frozen=True, slots=True)
class ExclusionRules:
    worse: float  # share by which a node must be slower
    most_wait_s: float


class Exclusion(NamedTuple):
    job: Job
    nodes: tuple[str, ...]
    worse: float  # share by which it would run slower there, in the mean
    wait_s: float  # so long it may decline them
    declines: bool  # it could start now, and some of them have room for it


def exclusions(
    view: Snapshot,
    knowledge: Knowledge,
    rules: ExclusionRules,
    run_times: RunTimes,
    left_out: Callable[[Job], bool],
) -> list[Exclusion]:
    """Of the jobs that come next, in Slurm's order. Any other job's list should be its user's own."""
    search = _Search(view, knowledge, rules, run_times)
    soon = [job for job in view.pending if _may_have(job) and not left_out(job)][:FRONT]
    return [found for job in soon if (found := search.of(job)) is not None]


def _may_have(job: Job) -> bool:
    """Its list can be written, says all that is needed, and nothing else keeps it waiting."""
    alone = job.array_id is None and len(job.partitions) == 1 and not (job.het or job.exclusive)
    own = job.required_nodes or job.reservation or job.dependency or job.hint.off
    return job.shape is not None and alone and not own and job.lease is None and job.why in SOON


@dataclass
class _Search:
    view: Snapshot
    knowledge: Knowledge
    rules: ExclusionRules
    run_times: RunTimes
    _slow: dict[tuple[str, str, int], FloatArray] = field(default_factory=dict)
    _free: dict[tuple[int, int, int], FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.needs = Needs(self.view.cluster, self.view.reservations, self.view.taken)
        self.asked = Needs(self.view.cluster, self.view.reservations, self.view.taken, self.knowledge.pools)
        self.ends = list(_ends(self.view))

    def of(self, job: Job) -> Exclusion | None:
        own = replace(job, excluded_nodes=job.excluded.own) if job.excluded else job
        need = self.needs.of(own)
        if need is None or not need.ways or len(need.areas) != 1:
            return None
        if self._dearer(need, self.asked.of(own)):
            return None  # Slurm would give it a dearer model the sooner
        nodes, gpus, _, _ = need.ways[0]
        app = self.knowledge.apps.get(job.hint.app)
        slow = self._slowness(app, gpus)
        may = np.isfinite(slow) & self.view.cluster.node_ok
        if need.areas[0].mask is not None:
            may &= need.areas[0].mask
        if not may.any():
            return None
        shut = may & (slow >= (1.0 + self.rules.worse) * float(np.median(slow[may])))
        left = may & ~shut
        if not shut.any() or left.sum() < SPARE * nodes or not _as_near(nodes, may, left, self.view.cluster):
            return None
        worse = float(slow[shut].mean() / slow[left].mean()) - 1.0
        sooner, later = self._when(need, may), self._when(need, left)
        wait_s = min(self.rules.most_wait_s, worse * self.run_times.of(job, app.name).at_least)
        if later - max(sooner, self.view.taken) > wait_s:
            return None
        names = tuple(self.view.cluster.node_names[row] for row in np.flatnonzero(shut))
        declines = sooner <= self.view.taken and self._room(need, shut)
        return Exclusion(job, names, worse, wait_s, declines)

    @staticmethod
    def _dearer(may: Need, asked: Need | None) -> bool:
        """Whether it may have nodes of dearer models than it asked for."""
        mask = None if asked is None or not asked.areas else asked.areas[0].mask
        return mask is not None and (may.areas[0].mask is None or bool((may.areas[0].mask & ~mask).any()))

    def _room(self, need: Need, mask: BoolArray) -> bool:
        """Whether some of these nodes have room for its part there."""
        return bool((self._free[need.ways[0][1:]][mask] <= self.view.taken).any())

    def _slowness(self, app: App, gpus: int) -> FloatArray:
        """Seconds per step on each node, with the devices that Slurm will take there not known: expected."""
        key = (app.name, app.cls, gpus)
        if key not in self._slow:
            self._slow[key] = _expected(app, gpus, self.view.cluster, self.knowledge)
        return self._slow[key]

    def _when(self, need: Need, mask: BoolArray) -> float:
        """When it could start on some of these nodes, by time limits, were nobody ahead of it."""
        nodes, gpus, cpus, mem_mb = need.ways[0]
        if (gpus, cpus, mem_mb) not in self._free:
            self._free[gpus, cpus, mem_mb] = self._free_at(gpus, cpus, mem_mb)
        times = np.sort(self._free[gpus, cpus, mem_mb][mask])
        return float(times[nodes - 1]) if len(times) >= nodes else math.inf

    def _free_at(self, gpus: int, cpus: int, mem_mb: int) -> FloatArray:
        """Of each node: since it has, or when it will have, so many GPUs free. Who holds GPUs holds what goes along."""
        cluster = self.view.cluster
        room = (cluster.cpus_free >= cpus) & (cluster.mem_free_mb >= mem_mb)
        free = cluster.gpu_free.sum(axis=1)
        when = np.where(room & (free >= gpus), self.view.taken, math.inf)
        for end, row, held in self.ends:
            free[row] += held
            if free[row] >= gpus and when[row] == math.inf:
                when[row] = max(end, self.view.taken + 1.0)
        return when


def _ends(view: Snapshot) -> Iterator[tuple[float, int, int]]:
    """(end, row, GPUs) of what runs, soonest first."""
    index = view.cluster.node_index
    found = [
        (math.inf if job.end is None else float(job.end), index[node], len(slots))
        for job in view.running
        for node, slots in zip(job.nodes, job.gpus, strict=True)
        if node in index
    ]
    yield from sorted(found)


def _expected(app: App, gpus: int, cluster: Cluster, knowledge: Knowledge) -> FloatArray:
    """The one equation, over all choices of so many GPUs of a node; without the span, which is the same on each."""
    scores = knowledge.scores.score[knowledge.scores.index(app.cls)]
    base = np.array([base_of(app, model) for model in cluster.models])
    out = np.full(cluster.n_nodes, math.inf)
    for row in range(cluster.n_nodes):
        there = cluster.gpu_exists[row]
        count = int(there.sum())
        if count < gpus:
            continue
        ranked = np.sort(scores[row][there])
        # The k-th fastest is the slowest of those taken in so many choices out of all.
        chance = [comb(k, gpus - 1) / comb(count, gpus) for k in range(gpus - 1, count)]
        slowest = float(base[cluster.gpu_model[row][there]].max())
        out[row] = float(step_time(slowest, ranked[gpus - 1 :], 1.0) @ np.array(chance))
    return out


def _as_near(nodes: int, may: BoolArray, left: BoolArray, cluster: Cluster) -> bool:
    """Several nodes that found room in one rack find it there still."""

    def fits(mask: BoolArray) -> bool:
        racks = cluster.rack[mask]
        return bool(len(racks)) and bool(np.unique(racks, return_counts=True)[1].max() >= nodes)

    return nodes == 1 or fits(left) or not fits(may)
