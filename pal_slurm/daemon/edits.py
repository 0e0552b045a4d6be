"""Decisions and verdicts as edits. In: Decision or Transition, and the job. Out: the Edit that says it to Slurm."""

from __future__ import annotations

from pal_slurm.model import Action, Decision, Edit, EditKind, Job


def address(job: Job, task: int | None) -> tuple[int, int | None]:
    """What to call a job in an edit: a task that still shares its array's record goes by ARRAY_TASK."""
    if task is None or job.array_id is None:
        return job.id, None
    return job.array_id, task


def start(decision: Decision, job: Job) -> Edit:
    """PIN or PLAIN, as decided."""
    number, task = address(job, decision.task)
    original = job.lease.original if job.lease else job.request
    if decision.action is Action.PLAIN or decision.placement is None:
        return Edit(number, EditKind.PLAIN, task, original=original)
    where = decision.placement
    return Edit(number, EditKind.PIN, task, where.nodes, where.slots, None, where.partition, original)


def give_back(job: Job, until: int | None) -> Edit:
    """The original request again; leased until `until`, or plain Slurm's from now on."""
    original = job.lease.original if job.lease else None
    return Edit(job.id, EditKind.UNPIN, until=until, original=original)
