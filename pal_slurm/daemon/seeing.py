"""What a cycle makes of what it was told. In: a snapshot, Slurm's counts. Out: the snapshot as the plan may see it."""

from __future__ import annotations

from dataclasses import replace

from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.guard import Rules
from pal_slurm.model import Job, Lease, Snapshot
from pal_slurm.policy.turn import BLOCKED
from pal_slurm.slurm.port import Passes

LEASE_S = 20
MOST_OFF_S = 3.0  # between two hosts' clocks; leases are begin times, and end by slurmctld's


def by_slurms_clock(snapshot: Snapshot, passes: Passes, since_s: float, report: CycleReport) -> Snapshot:
    """The snapshot with slurmctld's time where our host has another one; the report then ends with that.

    `since_s`: how long ago the snapshot was asked for, which was before the counts. Times are told in whole seconds.
    """
    ahead = snapshot.taken - (passes.told + 1)
    behind = passes.told - (snapshot.taken + since_s)
    if not passes.told or max(ahead, behind) <= MOST_OFF_S:
        return snapshot
    word, off_s = ("ahead of", ahead) if ahead > 0 else ("behind", behind)
    said = f"this host's clock is {off_s:.0f} s {word} slurmctld's: nothing is leased or started until they agree"
    report.end, report.note = "clock", f"{said} (`palctl doctor`)"
    return replace(snapshot, taken=float(passes.told))


def as_precise_as(rules: Rules, snapshot: Snapshot) -> Snapshot:
    """Where pins name nodes only, slots are none of the plan's business."""
    if rules.exact_slots or not snapshot.cluster.slots:
        return snapshot
    return replace(snapshot, cluster=replace(snapshot.cluster, slots=False))


def as_if_ours(snapshot: Snapshot) -> Snapshot:
    """In shadow mode nobody bears a mark of ours: as if job_submit.lua had given each its mark, and a lease."""
    now = int(snapshot.taken)

    def marked(job: Job) -> Job:
        if job.lease is not None or not job.gpu_job or (job.pending and job.why in BLOCKED):
            return job
        waits = job.pending and job.eligible is not None and job.eligible <= snapshot.taken
        return replace(job, lease=Lease(now + LEASE_S, job.request), eligible=now + LEASE_S if waits else job.eligible)

    pending, running = (tuple(map(marked, jobs)) for jobs in (snapshot.pending, snapshot.running))
    return replace(snapshot, pending=pending, running=running)
