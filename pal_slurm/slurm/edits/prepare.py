"""Before an edit is written. In: edits, the jobs as they stand. Out: the record that is meant, and whether it may be.

Both backends ask here, so that they refuse alike and call an array's tasks by the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pal_slurm.model import NOT_SENT, Edit, EditResult, Job, JobState, OfRunning, Outcome, Pin, Renew, Renice, Unpin
from pal_slurm.slurm.edits.rewrite import CantEdit, Rewrite, rewrite
from pal_slurm.slurm.port import Capabilities

SAFE_AHEAD_S = 5.0  # without disable_job_shrink: how far off a job's start must be for a node list to be sent


@dataclass(frozen=True, slots=True)
class Ready:
    """An edit that may be written."""

    edit: Edit
    before: Job
    asked: Rewrite
    tasks: tuple[int, ...]  # of an array's own record: those that are meant

    @property
    def turn(self) -> int:
        """Tasks go first: once they are split off, the rest of their array is the whole record, and stays one."""
        return 0 if self.edit.task is not None else 1

    @property
    def target(self) -> str:
        """The job as Slurm is to be told. An array's bare id would also reach tasks that have records of their own."""
        job = self.before
        if job.array_id is None:
            return str(job.id)
        if self.edit.task is not None:
            return f"{job.array_id}_{self.edit.task}"
        if job.array_task is not None:
            return f"{job.array_id}_{job.array_task}"
        return f"{job.array_id}_[{fold_tasks(self.tasks)}]"

    @property
    def homes(self) -> tuple[int, ...]:
        """Ids under which the record may be found afterwards: a task that was split off has a new one."""
        array = self.before.array_id
        return (self.before.id,) if array is None or self.edit.task is None else (self.before.id, array)


def prepare_all(
    edits: Sequence[Edit], stands: Mapping[int, Job], caps: Capabilities, may_name_nodes: bool, now: float
) -> list[EditResult | Ready]:
    """Each edit made ready, or why it is not written. `may_name_nodes`: disable_job_shrink is set.

    An edit of an array's record leaves alone the tasks that have edits of their own beside it: those are split off
    by then, and it would undo them.
    """
    own: dict[int, set[int]] = {}
    for edit in edits:
        if edit.task is not None:
            own.setdefault(edit.job, set()).add(edit.task)
    return [_prepare(edit, own.get(edit.job, set()), stands, caps, may_name_nodes, now) for edit in edits]


def _prepare(
    edit: Edit, own: set[int], stands: Mapping[int, Job], caps: Capabilities, may_name_nodes: bool, now: float
) -> EditResult | Ready:
    job = record_of(edit.job, edit.task, stands)
    if job is None:
        return EditResult(edit, Outcome.GONE, "no such job waits any more")
    if (stop := _not_as_needed(edit, job)) is not None:
        return stop
    if edit.seen is not None and not edit.seen.said_alike(job):
        return EditResult(edit, Outcome.REFUSED, f"{NOT_SENT}somebody edited it since it was looked at", job)
    if isinstance(edit, Pin) and edit.shard and not job.shares:
        return EditResult(edit, Outcome.REFUSED, f"{NOT_SENT}it does not say pal:share any more", job)
    asked = rewrite(edit, job, caps)
    if isinstance(asked, CantEdit):
        return EditResult(edit, Outcome.REFUSED, asked.why, job)
    if asked.texts.get("nodes") and not may_name_nodes and (job.eligible or 0) <= now + SAFE_AHEAD_S:
        # On a job that has just started a node list means: shrink, and Slurm kills the steps on the other nodes.
        return EditResult(edit, Outcome.REFUSED, "it may start at any moment, and disable_job_shrink is not set", job)
    tasks = tuple(task for task in job.array_tasks if task not in own)
    if job.array_id is not None and edit.task is None and job.array_task is None and not tasks:
        why = "its tasks have edits of their own" if job.array_tasks else "which of its tasks still wait can't be told"
        return EditResult(edit, Outcome.REFUSED, why, job)
    return Ready(edit, job, asked, tasks)


def _not_as_needed(edit: Edit, job: Job) -> EditResult | None:
    """In another state than the edit needs. A job whose last run is just being ended waits already, for some edits."""
    if job.state is JobState.OTHER:
        return EditResult(edit, Outcome.GONE, "it is over", job)
    if isinstance(edit, OfRunning):
        why = "it runs no more" if job.pending or job.completing else "it is suspended" if job.suspended else ""
        if isinstance(edit, Renice):
            why = ""
        return EditResult(edit, Outcome.REFUSED, f"{NOT_SENT}{why}", job) if why else None
    if job.pending or (job.completing and isinstance(edit, Renew | Unpin) and edit.between):
        return None
    return EditResult(edit, Outcome.STARTED, "it waits no more", job)


def by_id(records: Iterable[Job]) -> dict[int, Job]:
    """As `record_of` wants them."""
    return {record.id: record for record in records}


def record_of(job: int, task: int | None, records: Mapping[int, Job]) -> Job | None:
    """The record of this id; with a task, the record that holds it now."""
    if task is None:
        return records.get(job)
    home = records[job].array_id if job in records else job
    mine = (r for r in records.values() if r.array_id == home is not None)
    return next((r for r in mine if r.array_task == task or task in r.array_tasks), None)


def fold_tasks(tasks: Sequence[int]) -> str:
    """1, 2, 3, 7 as `1-3,7`."""
    runs: list[list[int]] = []
    for task in tasks:
        if runs and task == runs[-1][1] + 1:
            runs[-1][1] = task
        else:
            runs.append([task, task])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
