"""Decisions and verdicts as edits. In: Decision or Transition, and the job. Out: the Edit that says it to Slurm."""

from __future__ import annotations

from dataclasses import replace

from pal_slurm.model import Action, Decision, Job, Pin, Plain, Renew, Unpin

LEASE_S = 30  # of a job whose last run is just being ended
AFTER_S = 2  # a job that was just requeued must not start in the second in which its last run ended


def address(job: Job, task: int | None) -> tuple[int, int | None]:
    """What to call a job in an edit: a task that still shares its array's record goes by ARRAY_TASK."""
    if task is None or job.array_id is None:
        return job.id, None
    return job.array_id, task


def start(decision: Decision, job: Job) -> Pin | Plain:
    """As decided. What an undo restores is the request as it stands now: its user may have changed it."""
    number, task = address(job, decision.task)
    if decision.action is Action.PLAIN or decision.placement is None:
        return Plain(number, task, seen=job)
    where = decision.placement
    return Pin(number, task, where.nodes, where.slots, where.partition, job.request, where.shard, seen=job)


def give_back(job: Job, until: int | None, pin: Pin | Unpin | None = None, *, between: bool = False) -> Unpin:
    """The request as it was before `pin`, else as lua marked it; leased until `until`, else plain Slurm's."""
    original = pin.original if pin else None
    if original is None and job.lease:
        original = job.lease.original
    given = Unpin(job.id, None, until, original, between=between, own=_wrote_begin(job, until))
    return given if pin is None else replace(given, nodes=pin.nodes, partition=pin.partition)


def _wrote_begin(job: Job, begin: int | None) -> bool:
    """Its user did, since the submission: no mark tells that."""
    return job.lease is not None and job.lease.moved and begin is not None and begin == job.lease.not_before


def let_go(job: Job, now: float) -> Plain | Renew | Unpin:
    """Our hands off a job. One that only waits under its lease keeps all else that its user may have changed."""
    if job.completing:
        return give_back(job, int(now) + LEASE_S, between=True)
    if job.restarts > 0 and job.required_nodes and job.is_leased(now):
        # The pin of its first run stands; when it begins is Slurm's word, for its node has to forget the first run.
        return give_back(job, job.eligible)
    later = job.own_begin(now)
    if later is None and job.restarts > 0 and job.is_leased(now):
        later = int(now) + AFTER_S
    if job.is_leased(now) and not (job.shard or (job.pin and job.pin.slots)):
        # Slots without nodes are no pin of ours, but for a part of one: who bears our mark asked for whole GPUs.
        return Plain(job.id) if later is None else Renew(job.id, until=later, own=_wrote_begin(job, later))
    return give_back(job, later)
