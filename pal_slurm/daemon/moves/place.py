"""A mover's place in the queue, and on GPUs. In: job, snapshot. Out: the nice that puts it first; what it holds; why it
can't go there."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.guard.constraints import check_reservations
from pal_slurm.guard.verdict import No
from pal_slurm.model import Job, Placement, Snapshot, Waits
from pal_slurm.slurm.port import Slurm

MOST_PRIORITY = 4_294_967_295
BASIC = 2**31  # priorities beyond are of priority/basic: jobs are numbered down from the greatest
STEP = 50_000
NEVER = (Waits.HELD, Waits.BLOCKED, Waits.NEVER)


def ahead_of_all(job: Job, snapshot: Snapshot) -> int | None:
    """A requeued job loses its age, and Slurm starts nobody behind a head that waits. None: nobody waits."""
    waiting = [other.priority for other in snapshot.pending if other.why not in NEVER and other.gpu_job]
    if not waiting:
        return None
    head = max(waiting)
    # A priority beyond the greatest number would wrap to the least.
    more = min(STEP, MOST_PRIORITY - max(head, job.priority)) if head > BASIC else head + 1
    return job.nice - more


def holds(job: Job, where: Placement) -> bool:
    """Whether it is on one of these GPUs; what a job that is just ending holds is not told any more."""
    names = set(job.nodes) & set(where.nodes)
    if not names or not any(job.holds):
        return bool(names)
    wanted = dict(zip(where.nodes, where.gpus, strict=True))
    held = dict(zip(job.nodes, job.holds, strict=True))
    return any(set(wanted[name]) & set(held[name]) for name in names)


def taken(where: Placement, job: Job, snapshot: Snapshot) -> str:
    """Whether others have some of these GPUs by now, while the job still runs."""
    own, cluster = dict(zip(job.nodes, job.holds, strict=True)), snapshot.cluster
    for node, slots in zip(where.nodes, where.gpus, strict=True):
        row = cluster.node_index.get(node)
        if row is not None and not all(cluster.gpu_free[row, slot] or slot in own.get(node, ()) for slot in slots):
            return f"another job has started on {node} meanwhile"
    return ""


def closed(targets: Sequence[Placement], job: Job, snapshot: Snapshot) -> str:
    """Why it would go for nothing: one of these starts no jobs any more. Fences of ours keep nobody who moves."""
    foreign = tuple(r for r in snapshot.reservations if r.fenced is None)
    index, ok = snapshot.cluster.node_index, snapshot.cluster.node_ok
    for where in targets:
        if bad := [name for name in where.nodes if name not in index or not ok[index[name]]]:
            return f"{', '.join(bad)} can't start jobs now"
        try:
            check_reservations(job, where, foreign, snapshot.taken)
        except No as no:
            return no.said
    return ""


def bound_there(slurm: Slurm, jobs: Sequence[int]) -> tuple[dict[int, str], bool]:
    """Which of them must stay where they are, and why; all of them where Slurm does not tell: then that is not sure.

    Squeue fails where the only one that it is asked about is gone: that costs nobody else his lease or his undo.
    """
    try:
        return slurm.bound(jobs), True
    except SlurmUnavailable as none:
        return dict.fromkeys(jobs, f"whether it may go is not known: {none}"), False
