"""Whose a job's begin time is. In: the queue, the ledger. Out: the queue, with begin times that aren't ours marked so.

A lease is a begin time, and users have begin times too: `sbatch --begin` (lua writes that into the mark) and later
`scontrol update StartTime=`. One that is neither lua's nor written by us is its user's, or an admin's: the job is not
started sooner, and the lease is not renewed. When it has come the job is Slurm's to start, or is leased again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from pal_slurm.model import Job, Snapshot
from pal_slurm.store import Ledger

LONGEST_LEASE_S = 600  # nobody of us ever writes a begin time further ahead
REQUEUE_S = 130  # for so long at most Slurm keeps a requeued job
Begun = tuple[int, int, int]  # id, submit time, begin time


class Whose(Enum):
    OURS = auto()  # lua wrote it, or we did
    THEIRS = auto()  # somebody wrote it, and it was still to come when we first saw it
    LET_GO = auto()  # it was in the past already: "start now", said by us, by `palctl undo` or by its user


@dataclass
class Begins:
    _whose: dict[Begun, Whose] = field(default_factory=dict)  # a new begin time is a new question
    _known_since: float | None = None  # of earlier edits the ledger knows nothing

    def told(self, snapshot: Snapshot, ledger: Ledger) -> Snapshot:
        """The same queue; leases whose begin time somebody has moved say so."""
        if self._known_since is None:
            self._known_since = ledger.since(snapshot.taken)
        jobs = [job for job in snapshot.pending if job.lease is not None and job.eligible is not None]
        begun = {_begun(job) for job in jobs}
        self._whose = {key: whose for key, whose in self._whose.items() if key in begun}
        self._ask([job for job in jobs if _begun(job) not in self._whose], snapshot.taken, ledger)
        # Once it has come, what the mark says counts again.
        still = (job for job in jobs if (job.eligible or 0) > snapshot.taken)
        return _moved(snapshot, {job.id for job in still if self._whose[_begun(job)] is Whose.THEIRS})

    def let_go(self, job: Job) -> bool:
        """Somebody said "start now": whoever it was, it is Slurm's from then on."""
        return self._whose.get(_begun(job)) is Whose.LET_GO

    def _ask(self, jobs: list[Job], now: float, ledger: Ledger) -> None:
        asked = [job for job in jobs if job.lease is not None and job.lease.end != job.eligible and not _requeued(job)]
        written = ledger.wrote_begin((n, job.submit, job.eligible or 0) for job in asked for n in ids(job))
        for job in jobs:
            self._whose[_begun(job)] = Whose.OURS
        for job in asked:
            if any((n, job.submit, job.eligible) in written for n in ids(job)):
                continue
            ahead = (job.eligible or 0) - now
            if ahead <= 0:
                self._whose[_begun(job)] = Whose.LET_GO
            # A job that is older than the ledger may have had its begin time from one that was lost.
            elif job.submit >= int(self._known_since or 0) or ahead > LONGEST_LEASE_S:
                self._whose[_begun(job)] = Whose.THEIRS


def ids(job: Job) -> Iterable[int]:
    """An array's task that was split off bears the begin time that was written to the array."""
    return (job.id,) if job.array_id in (None, job.id) else (job.id, job.array_id or 0)


def _requeued(job: Job) -> bool:
    """Its begin time may be Slurm's: two minutes after the requeue, which also gave it a new submit time."""
    return bool(job.restarts) and (job.eligible or 0) <= job.submit + REQUEUE_S


def _begun(job: Job) -> Begun:
    return (job.id, job.submit, job.eligible or 0)


def beyond_a_lease(snapshot: Snapshot) -> Snapshot:
    """What can be told without a ledger: nobody of us writes a begin time that far ahead."""
    last = snapshot.taken + LONGEST_LEASE_S
    return _moved(
        snapshot, {job.id for job in snapshot.pending if job.lease is not None and (job.eligible or 0) > last}
    )


def _moved(snapshot: Snapshot, theirs: Collection[int]) -> Snapshot:
    if not theirs:
        return snapshot
    return replace(snapshot, pending=tuple(_kept(job) if job.id in theirs else job for job in snapshot.pending))


def _kept(job: Job) -> Job:
    if job.lease is None:
        return job
    return replace(job, lease=replace(job.lease, not_before=job.eligible, moved=True))
