"""Takes back what we did, with nothing but Slurm at hand (P1). In: the queue and its marks. Out: edits.

The mark in each job holds its original request, so this works with pald dead and its database gone: it is what
`palctl undo`, `ExecStopPost` and the dead man's timer run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from pathlib import Path

from pal_slurm.daemon.edits import let_go
from pal_slurm.errors import BadInput
from pal_slurm.model import Edit, EditResult, Include, Job, Snapshot
from pal_slurm.slurm.port import Slurm

BATCH = 50
PAUSE_S = 0.5  # between batches: 100 edits a second at most, also when pald is not there to pace them


def ours(snapshot: Snapshot, theirs: Collection[int] = ()) -> list[Job]:
    """Pending jobs with a lease, a pin or excluded nodes of ours, in Slurm's order: the head is freed first.

    And those that were requeued with a pin: once their old nodes are done with them, they would wait for that.
    `theirs`: who waits on nodes of his user's choice, as far as that is known.
    """
    back = [job for job in snapshot.running if job.completing and job.restarts and job.pin]
    return [job for job in snapshot.pending if job.excluded or _held(job, snapshot.taken, theirs)] + back


def _held(job: Job, now: float, theirs: Collection[int]) -> bool:
    pinned = job.pin is not None and job.id not in theirs
    return pinned or (job.shard and job.lease is not None) or job.waits_for_us(now)


def one(snapshot: Snapshot, job_id: int, theirs: Collection[int] = (), *, fenced: bool = False) -> list[Job]:
    """The job of that number, or all records of that array; `fenced`: that its fence ends is enough."""
    named = [job for job in (*snapshot.pending, *snapshot.running) if job_id in (job.id, job.array_id)]
    if not any(job.pending or job.completing for job in named) and not fenced:
        raise BadInput(f"no pending job {job_id}; only pending jobs can be undone")
    found = [job for job in ours(snapshot, theirs) if job in named]
    if not found and not fenced:
        raise BadInput(
            f"job {job_id} bears neither lease nor pin of ours, nor nodes that we excluded: there is nothing to undo"
        )
    return found


def undo(slurm: Slurm, jobs: Iterable[Job], now: float, theirs: Collection[int] = ()) -> list[EditResult]:
    """Give each its original request back, to start when Slurm likes; `theirs` as in `ours`."""
    edits: list[Edit] = []
    for job in jobs:
        if job.excluded is not None:
            edits.append(Include(job.id))
        if job.excluded is None or _held(job, now, theirs):
            edits.append(let_go(job, now))
    results: list[EditResult] = []
    for first in range(0, len(edits), BATCH):
        if first:
            time.sleep(PAUSE_S)
        results += slurm.apply(edits[first : first + BATCH])
    return results


def between_runs(snapshot: Snapshot) -> list[Job]:
    """Requeued, un-pinned, leased, and their nodes not yet done with them: nothing is to be undone."""
    return [job for job in snapshot.running if job.completing and job.restarts and job.lease and not job.pin]


def fences(snapshot: Snapshot, job: int | None = None) -> list[int]:
    """Reservations of ours, by their jobs: they end by themselves, in a minute or two. `job`: around its move alone."""
    return [r.fenced for r in snapshot.reservations if r.fenced is not None and job in (None, r.fenced)]


def seconds_dead(alive_file: Path, now: float) -> float:
    """For how long pald has given no sign of life; for ever, where there is none at all."""
    try:
        status = alive_file.stat()
    except FileNotFoundError:
        return float("inf")
    # A clock that was set back makes no sign of life of it.
    return abs(now - status.st_mtime) if status.st_size else float("inf")
