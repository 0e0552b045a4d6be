"""Whose a job's begin time is. In: the queue, the ledger. Out: the queue, with begin times that aren't ours marked so.

A lease is a begin time, and users have begin times too: `sbatch --begin` (lua writes that into the mark) and later
`scontrol update StartTime=`. One that is neither lua's nor written by us is its user's, or an admin's: the job is not
started sooner, and the lease is not renewed. When it has come the job is Slurm's to start, or is leased again.

A lease that ran out before it was renewed leaves a job that is Slurm's to start, with the begin time that we (or lua)
wrote, or one of its user's that has come since: nobody has let it go, and it may be leased again. One that was
released, surrendered or undone (`palctl undo`, also without the ledger) began at that moment instead; where its user's
own `--begin` was still to come, it is taken up again after that. One that was let go because pald was paused may be
leased again when pald goes on, unless pald was started anew meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pal_slurm.daemon.entries import Entries, Whose, keys
from pal_slurm.model import Job, Snapshot
from pal_slurm.policy.turn import Turn, turn_of
from pal_slurm.store import Ledger

LONGEST_LEASE_S = 600  # nobody of us ever writes a begin time further ahead
REQUEUE_S = 130  # for so long at most Slurm keeps a requeued job
MOST_TIMES = 3  # leased again, then it stays Slurm's: a pald that is always late must not keep a job from starting
ASKED_AT_ONCE = 200  # jobs that the ledger is asked for in one cycle


def told(snapshot: Snapshot, entries: Entries, ledger: Ledger) -> Snapshot:
    """The same queue; leases whose begin time somebody has moved say so."""
    snapshot = _gone(snapshot, entries)
    jobs = [job for job in snapshot.pending if job.lease is not None and job.eligible is not None]
    _ask([job for job in jobs if entries[job.key].of(job.eligible).whose is None], snapshot.taken, entries, ledger)
    # Once it has come, what the mark says counts again.
    still = (job for job in jobs if (job.eligible or 0) > snapshot.taken)
    return _moved(snapshot, {job.id for job in still if entries[job.key].whose is Whose.THEIRS})


def _gone(snapshot: Snapshot, entries: Entries) -> Snapshot:
    """Arrays that we let go: where as many tasks run as may at once, Slurm tells no begin time of those that wait."""
    at = {
        job.id: let_go_at
        for job in snapshot.pending
        if job.array_tasks and job.eligible is None and not job.dependency and job.lease is not None
        if (let_go_at := entries[job.key].let_go_at) is not None
    }
    if not at:
        return snapshot
    pending = (replace(job, eligible=at[job.id]) if job.id in at else job for job in snapshot.pending)
    return replace(snapshot, pending=tuple(pending))


def _ask(jobs: list[Job], now: float, entries: Entries, ledger: Ledger) -> None:
    asked = [job for job in jobs if job.lease is not None and job.lease.end != job.eligible and not _requeued(job)]
    written = ledger.wrote_begin((key, job.eligible or 0) for job in asked for key in keys(job))
    for job in jobs:
        entries[job.key].whose = Whose.OURS
    for job in asked:
        if any((key, job.eligible) in written for key in keys(job)):
            continue
        ahead = (job.eligible or 0) - now
        if ahead <= 0:
            entry = entries[job.key]
            entry.whose, entry.paused = Whose.PAUSED if entry.paused else Whose.LET_GO, False
        # A job that is older than the ledger may have had its begin time from one that was lost.
        elif job.submit >= int(entries.since or 0) or ahead > LONGEST_LEASE_S:
            entries[job.key].whose = Whose.THEIRS


def _requeued(job: Job) -> bool:
    """Its begin time may be Slurm's: two minutes after the requeue, which also gave it a new submit time."""
    return bool(job.restarts) and (job.eligible or 0) <= job.submit + REQUEUE_S


def lapsed(snapshot: Snapshot, entries: Entries, ledger: Ledger) -> frozenset[int]:
    """Whose lease ran out, as far as it is known; of a long queue the end first, as when they are leased again."""
    found = [job for job in reversed(snapshot.pending) if ran_out(job, snapshot.taken)]
    about = {job.id: entries[job.key].of(job.eligible) for job in found}
    found = [job for job in found if about[job.id].whose is not Whose.LET_GO]
    unknown = [job for job in found if about[job.id].leased_again is None][:ASKED_AT_ONCE]
    if unknown:
        times = ledger.leased_again(key for job in unknown for key in keys(job))
        for job in unknown:
            about[job.id].leased_again = max(times.get(key, 0) for key in keys(job))
    often = {number: MOST_TIMES if e.leased_again is None else e.leased_again for number, e in about.items()}
    return frozenset(job.id for job in found if often[job.id] < MOST_TIMES)


def ran_out(job: Job, now: float) -> bool:
    """It looks as if: our mark, no pin, eligible, kept by no limit. A requeued job has its begin time from Slurm."""
    if job.lease is None or job.restarts or not job.gpu_job or job.pin:
        return False
    # A mark that asks for a later begin: its user has asked for an earlier one since.
    return turn_of(job, now)[0] is Turn.THEIRS and job.own_begin(now) is None


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
