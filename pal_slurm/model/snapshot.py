"""One look at Slurm, and what we know beside it: all that policies and guard ever see. In: records. Out: Snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pal_slurm.model.app import Apps
from pal_slurm.model.cluster import Cluster
from pal_slurm.model.job import Job, JobState
from pal_slurm.model.placement import Placement
from pal_slurm.model.pools import NO_RULES, PoolRules
from pal_slurm.model.scores import ScoreTable
from pal_slurm.model.sharing import NOBODY_SHARES, PairsByUser
from pal_slurm.words import digits

FENCE = "pal-move-"


def fence_of(job: int) -> str:
    """The name of the reservation that keeps others from the GPUs of this job while it moves."""
    return f"{FENCE}{job}"


@dataclass(frozen=True, slots=True)
class Reservation:
    name: str
    nodes: frozenset[str]
    start: int
    end: int
    maintenance: bool = False
    flags: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()  # `-alice`: all but her; none: all
    accounts: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()  # who is in them is not told
    partly: bool = False  # others may have the rest of its nodes: Slurm alone knows which GPUs and cores that is

    def draws(self, job: Job, now: float) -> bool:
        """Whether Slurm may start it there although it did not ask for it."""
        if "MAGNETIC" not in self.flags or not self.start <= now < self.end:
            return False
        return _among(job.user, self.users) and _among(job.account, self.accounts)

    @property
    def fenced(self) -> int | None:
        """The job for which we have set it up; None: it is not ours."""
        rest = self.name.removeprefix(FENCE)
        return int(rest) if rest != self.name and digits(rest) else None


def _among(name: str, names: frozenset[str]) -> bool:
    wanted = [other for other in names if not other.startswith("-")]
    return f"-{name}" not in names and (not wanted or name in wanted)


def over(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Those GPU jobs that have run, and run no more."""
    ended = (job for job in jobs if job.state is JobState.OTHER or job.completing)
    return tuple(job for job in ended if job.end and job.nodes and job.gpu_job)


@dataclass(frozen=True, slots=True)
class Snapshot:
    taken: float  # epoch seconds; P6 checks its age right before each write
    cluster: Cluster
    pending: tuple[Job, ...]  # in Slurm's own order
    running: tuple[Job, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    ended: Mapping[int, int] = field(default_factory=dict)  # when, of jobs that are over, where Slurm tells of them
    over: tuple[Job, ...] = ()  # GPU jobs that have run and are over, as long as Slurm tells of them
    dropped_hints: int = 0  # jobs whose hostile or broken comment cost them their hint
    unread: tuple[str, ...] = ()  # records that could not be understood, one sentence each
    too_long: tuple[str, ...] = ()  # records with a text longer than anything we read: these jobs alone are Slurm's

    @property
    def awake(self) -> Snapshot:
        """The same without nodes that are powered down or boot."""
        if self.cluster.asleep is None:
            return self
        return replace(self, cluster=replace(self.cluster, node_ok=self.cluster.awake, asleep=None))

    def ending(self, within_s: float) -> frozenset[str]:
        """Nodes that are not done with a job which ended so lately: Slurm tells its GPUs as free, and starts nobody."""
        late = (job for job in self.running if job.completing and self.taken - (job.end or self.taken) < within_s)
        return frozenset(name for job in late for name in job.nodes)

    def keeping(self, places: Iterable[Placement]) -> Snapshot:
        """The same, where the GPUs of these are not free, nor any part of them."""
        kept, cluster = list(places), self.cluster
        if not kept:
            return self
        taken = np.zeros_like(cluster.gpu_free)
        for where in kept:
            for node, slots in zip(where.nodes, where.gpus, strict=True):
                if node in cluster.node_index:
                    taken[cluster.node_index[node], [slot for slot in slots if slot < cluster.width]] = True
        parts = None if cluster.parts_free is None else np.where(taken, 0, cluster.parts_free)
        return replace(self, cluster=replace(cluster, gpu_free=cluster.gpu_free & ~taken, parts_free=parts))


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the store knows: scores aligned with the snapshot's cluster, and applications; what the site wants."""

    scores: ScoreTable
    apps: Apps = Apps()
    pools: PoolRules = NO_RULES
    pairs: PairsByUser = NOBODY_SHARES  # what it costs two jobs to have one GPU
