"""Decisions and verdicts as edits. In: Decision or Transition, and the job. Out: the Edit that says it to Slurm."""

from __future__ import annotations

from pal_slurm.model import Action, Decision, Edit, EditKind, Job, Request


def address(job: Job, task: int | None) -> tuple[int, int | None]:
    """What to call a job in an edit: a task that still shares its array's record goes by ARRAY_TASK."""
    if task is None or job.array_id is None:
        return job.id, None
    return job.array_id, task


def start(decision: Decision, job: Job) -> Edit:
    """PIN or PLAIN, as decided. What an undo restores is the request as it stands now: its user may have changed it."""
    number, task = address(job, decision.task)
    original = job.request
    if decision.action is Action.PLAIN or decision.placement is None:
        return Edit(number, EditKind.PLAIN, task, original=original, seen=job)
    where = decision.placement
    return Edit(number, EditKind.PIN, task, where.nodes, where.slots, None, where.partition, original, seen=job)


def give_back(job: Job, until: int | None, original: Request | None = None) -> Edit:
    """The request as it was before the pin, else as lua marked it; leased until `until`, else plain Slurm's."""
    marked = job.lease.original if job.lease else None
    return Edit(job.id, EditKind.UNPIN, until=until, original=original or marked)


def let_go(job: Job, now: float) -> Edit:
    """Our hands off a job. One that only waits under its lease keeps all else that its user may have changed."""
    if job.restarts > 0 and job.required_nodes and job.is_leased(now):
        # The pin of its first run stands; when it begins is Slurm's word, for its node has to forget the first run.
        return give_back(job, job.eligible)
    later = job.own_begin(now)
    if job.is_leased(now) and not (job.pin and job.pin.slots):
        # Slots without nodes are no pin of ours.
        return Edit(job.id, EditKind.PLAIN if later is None else EditKind.RENEW, until=later)
    return give_back(job, later)
