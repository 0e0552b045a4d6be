"""What the steps of a move so far, and its job, tell. In: move, steps, the job as it stands. Out: yes or no. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import EditKind, Intent, Job, Move, Outcome, Pin, Renice, Requeue, Unpin, Waits

MOST_S = 10 * 365 * 86_400  # no time limit at all


def made_of(steps: Sequence[Intent], kind: EditKind) -> int:
    return sum(intent.edit.kind is kind for intent in steps)


def was_requeued(steps: Sequence[Intent]) -> bool:
    later = (EditKind.UNPIN, EditKind.RENEW, EditKind.PIN)
    seen = (Outcome.DONE, Outcome.PARTIAL, Outcome.STARTED)
    return any(i.edit.kind in later or (i.edit.kind is EditKind.REQUEUE and i.outcome in seen) for i in steps)


def first_sign(steps: Sequence[Intent]) -> float:
    later = (i.written_at for i in steps if i.edit.kind not in (EditKind.WARN, EditKind.FENCE))
    return next(later, steps[-1].written_at)


def bears_our_nice(move: Move, job: Job) -> bool:
    """Something of ours stands in it that nobody else would take back: a nice, or a lease that has no end yet."""
    return move.ahead is not None and job.nice == move.ahead != move.nice


def held(job: Job) -> bool:
    """Also one whose old run has not ended."""
    return job.why is Waits.HELD or job.priority == 0


def wrote_over_our_nice(move: Move, steps: Sequence[Intent], job: Job) -> bool:
    """A user may lower a job's priority: Slurm sets its nice to 0, and priority/basic keeps what our nice brought."""
    if move.ahead is None or job.nice == move.ahead or held(job):
        return False
    for intent in reversed(steps):
        edit, stood = intent.edit, intent.outcome in (Outcome.DONE, Outcome.PARTIAL)
        if isinstance(edit, Renice) and stood:
            return False
        if isinstance(edit, Requeue | Unpin) and edit.nice is not None:
            return stood
    return False


def changed(move: Move, steps: Sequence[Intent], job: Job, placed: Sequence[tuple[str, ...]] = ()) -> str:
    """What somebody else has asked for since. `placed`: nodes that the planner pinned it to."""
    known = [move.old.nodes, *placed, *(i.edit.nodes for i in steps if isinstance(i.edit, Pin))]
    if job.required_nodes and not any(job.asks_for(nodes, ()) for nodes in known):
        return f"its node list is now {job.required_nodes}"
    if job.dependency or job.reservation:
        return "it waits for other jobs now" if job.dependency else "it is in a reservation now"
    asked, made = job.request, move.original
    if job.pending and asked.min_nodes > max(made.min_nodes, *map(len, known)):
        return "it asks for more nodes now"  # ahead of the queue stands what it had (P5)
    if move.partitions and not set(job.partitions) <= {*move.partitions, *made.partition.split(",")}:
        return f"its partition is now {','.join(job.partitions)}"
    if move.time_limit_s is not None and (job.time_limit_s or MOST_S) > move.time_limit_s:
        return "it asks for more time now"
    if job.pending and job.shape is not None and job.shape.cpus > move.cpus > 0:
        return "it asks for more CPUs now"
    if job.pending and job.shape is not None and job.shape.mem_on_each(len(move.old.nodes)) > move.mem_mb > 0:
        return "it asks for more memory now"
    if job.pending and job.exclusive:
        return "it asks for whole nodes now"
    if len(job.slots) * (max(1, asked.min_nodes) if job.pending else 1) > move.gpus:
        return "it asks for more GPUs now"
    same = (asked.per_node, asked.per_job, asked.per_task, asked.per_socket) == (
        made.per_node, made.per_job, made.per_task, made.per_socket,
    )  # fmt: skip
    return "" if same or job.slots else "it asks for other GPUs now"


def still_pinned(steps: Sequence[Intent], job: Job) -> bool:
    """By a pin of this move, that was not taken back: a later one is the planner's."""
    for intent in reversed(steps):
        if isinstance(intent.edit, Unpin) and intent.outcome in (Outcome.DONE, Outcome.PARTIAL):
            return False
        if isinstance(intent.edit, Pin):
            return job.asks_for(intent.edit.nodes, ())
    return False
