"""Limits of users, accounts and QOS, known only by running into them. In: fates of pins, the queue. Out: the queue.

Slurm tells of no limit before a job has met it. Of those who share one (a user's jobs of one account, QOS and
partition) none that asks for as much is pinned any more once a pin waits for it: else each of a thousand would take
free GPUs in its turn, for a cycle or two, while others wait. One is tried again when a job that could count has ended,
or after a minute; and as long as they start, twice as many each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from pal_slurm.daemon.reconcile import Fate, Transition
from pal_slurm.model import SHARED_LIMITS, Job, JobRef, Pin, Snapshot, Waits

AGAIN_S = 60.0  # the limit may have been raised, or be one of time
Group = tuple[str, str, str, tuple[str, ...]]


@dataclass
class LimitMet:
    since: float
    counted: frozenset[JobRef]  # jobs that ran when it was met
    gpus: int  # who asks for fewer may still have them
    why: Waits
    room: int = 0  # so many may be pinned

    def look(self, running: frozenset[JobRef], now: float) -> None:
        if not self.room and (not self.counted <= running or now - self.since >= AGAIN_S):
            self.room = 1


@dataclass
class LimitsMet:
    _met: dict[Group, LimitMet] = field(default_factory=dict)

    def kept(self, view: Snapshot, fates: Iterable[Transition], movers: Collection[int] = ()) -> Snapshot:
        """The same queue, where those who wait for a limit say so. `movers`: between two runs they count as running."""
        waiting = [(t.job, t.fate) for t in fates if t.job is not None and isinstance(t.intent.edit, Pin)]
        for job, fate in waiting:
            self._learn(job, fate, view)
        if not self._met:
            return view
        running = frozenset(job.key for job in view.running)
        there = {_group_of(job) for job in view.pending if job.lease is not None}
        self._met = {key: limit for key, limit in self._met.items() if key in there}
        for limit in self._met.values():
            limit.look(running.union(ref for ref in limit.counted if ref.id in movers), view.taken)
        pinned = {_group_of(job) for job, fate in waiting if fate in (Fate.WAITING, Fate.STANDS)}
        room = {key: 0 if key in pinned else limit.room for key, limit in self._met.items()}
        return replace(view, pending=tuple(self._limited(job, room, view) for job in view.pending))

    def _learn(self, job: Job, fate: Fate, view: Snapshot) -> None:
        key, now = _group_of(job), view.taken
        if job.why in SHARED_LIMITS and fate in (Fate.UNDO, Fate.SURRENDER):
            before = self._met.get(key)
            gpus = _gpus(job) if before is None else min(before.gpus, _gpus(job))
            self._met[key] = LimitMet(now, frozenset(o.key for o in view.running if _may_count(o, job)), gpus, job.why)
        elif fate in (Fate.STARTED, Fate.GOES_ON) and key in self._met:
            self._met[key].room *= 2

    def _limited(self, job: Job, room: dict[Group, int], view: Snapshot) -> Job:
        key = _group_of(job)
        left = room.get(key) if job.is_leased(view.taken) else None
        if left is None or _gpus(job) < self._met[key].gpus:
            return job
        if not left:
            return replace(job, limited=True, why=self._met[key].why)
        if not job.array_tasks:
            room[key] = left - 1
            return job
        room[key] = 0
        run = sum(other.array_id == job.array_id for other in view.running)
        return replace(job, array_limit=min(job.array_limit or run + left, run + left))


def _group_of(job: Job) -> Group:
    return job.user, job.account, job.qos, job.partitions


def _may_count(other: Job, job: Job) -> bool:
    """Against the same limit; of an account's parents nobody tells."""
    return other.user == job.user or other.account == job.account or other.qos == job.qos


def _gpus(job: Job) -> int:
    return (job.shape or job.roughly).least_gpus
