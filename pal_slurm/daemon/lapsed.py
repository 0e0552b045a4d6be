"""Leases that ran out before they were renewed. In: the queue, the ledger. Out: the jobs that may be leased again.

Such a job is Slurm's to start, and bears the begin time that we (or lua, in its mark) wrote: nobody has let it go.
One that was released, surrendered or undone (`palctl undo`, also without the ledger) began at that moment instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pal_slurm.daemon.reconcile import pinned_by_us
from pal_slurm.model import Job, Snapshot
from pal_slurm.policy.turn import Turn, turn_of
from pal_slurm.store import Ledger

MOST_TIMES = 3  # then it stays Slurm's: a pald that is always late must not keep a job from starting
ASKED_AT_ONCE = 200  # jobs that the ledger is asked for in one cycle

Begun = tuple[int, int, int]  # id, submit time, begin time


@dataclass
class Lapsed:
    _ours: dict[Begun, bool] = field(default_factory=dict)  # a new begin time is a new question

    def look(self, snapshot: Snapshot, ledger: Ledger) -> frozenset[int]:
        """The ids of those that are known so far; of a long queue the end comes first, as in `_lease_again`."""
        found = [job for job in reversed(snapshot.pending) if ran_out(job, snapshot.taken)]
        known = {_begun(job) for job in found}
        self._ours = {key: ours for key, ours in self._ours.items() if key in known}
        self._ask([job for job in found if _begun(job) not in self._ours][:ASKED_AT_ONCE], ledger)
        return frozenset(job.id for job in found if self._ours.get(_begun(job), False))

    def _ask(self, jobs: list[Job], ledger: Ledger) -> None:
        if not jobs:
            return
        written = ledger.wrote_begin((number, job.submit, job.eligible or 0) for job in jobs for number in _ids(job))
        times = ledger.leased_again((number, job.submit) for job in jobs for number in _ids(job))
        for job in jobs:
            by_us = any((number, job.submit, job.eligible) in written for number in _ids(job))
            by_lua = job.lease is not None and job.lease.end == job.eligible
            often = max((times.get((number, job.submit), 0) for number in _ids(job)), default=0)
            self._ours[_begun(job)] = (by_us or by_lua) and often < MOST_TIMES


def ran_out(job: Job, now: float) -> bool:
    """It looks as if: our mark, no pin, eligible, kept by no limit. A requeued job has its begin time from Slurm."""
    if job.lease is None or job.restarts or not job.gpu_job or pinned_by_us(job):
        return False
    return turn_of(job, now)[0] is Turn.THEIRS


def _ids(job: Job) -> Iterable[int]:
    """An array's task that was split off bears the begin time that was written to the array."""
    return (job.id,) if job.array_id in (None, job.id) else (job.id, job.array_id or 0)


def _begun(job: Job) -> Begun:
    return (job.id, job.submit, job.eligible or 0)
