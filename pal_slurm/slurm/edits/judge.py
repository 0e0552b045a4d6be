"""What became of an edit. In: what was asked, the job before and as re-read, slurmctld's words. Out: EditResult.

Slurm's updates are not atomic and its rc 0 proves nothing (slurmctld accepts impossible requests): only the re-read
record counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.model import Edit, EditResult, Job, JobState, OfRunning, Outcome, Pin, Plain, Renice, Requeue
from pal_slurm.slurm import gres
from pal_slurm.slurm.edits.rewrite import NOW, Rewrite
from pal_slurm.slurm.nodeset import expand

CLOCK_SLACK_S = 2  # slurmctld's clock and ours, and the second that an update may take


def judge(edit: Edit, asked: Rewrite, before: Job, after: Job | None, said: str, now: float) -> EditResult:
    if after is None or after.state is JobState.OTHER:
        return EditResult(edit, Outcome.GONE, said or "no such job waits or runs any more", after)
    if isinstance(edit, OfRunning):
        return _of_running(edit, asked, before, after, said, now)
    if after.state is JobState.RUNNING and not (before.completing and after.completing):
        if isinstance(edit, Pin) and _runs_as_pinned(edit, after):
            return EditResult(edit, Outcome.DONE, said, after)
        if isinstance(edit, Plain) and before.pending and not said:
            return EditResult(edit, Outcome.DONE, said, after)
        return EditResult(edit, Outcome.STARTED, said or "it runs already", after)
    wrong = [*_differences(asked, after, said, now), *_recounted(edit, before, after)]
    if not wrong:
        if asked.exact:
            return EditResult(edit, Outcome.DONE, said, after)
        kept = "this Slurm can't take the slots back: the job may start on any node, on the same slots"
        return EditResult(edit, Outcome.PARTIAL, said or kept, after)
    outcome = Outcome.REFUSED if _stands_alike(before, after) else Outcome.PARTIAL
    return EditResult(edit, outcome, "; ".join(filter(None, (said, *wrong))), after)


def _of_running(edit: OfRunning, asked: Rewrite, before: Job, after: Job, said: str, now: float) -> EditResult:
    if isinstance(edit, Renice):
        if after.nice != edit.nice:
            return EditResult(edit, Outcome.REFUSED, said or f"its nice is {after.nice}", after)
        lost = bool(asked.hold and after.pending and after.priority)
        return EditResult(edit, Outcome.PARTIAL if lost else Outcome.DONE, said or "it is held no more" * lost, after)
    if not isinstance(edit, Requeue):
        return EditResult(edit, Outcome.REFUSED if said else Outcome.DONE, said, after)
    if after.restarts <= before.restarts:
        ends = EditResult(edit, Outcome.GONE, said or "it ends by itself", after)
        return ends if after.completing else EditResult(edit, Outcome.REFUSED, said or "it runs on", after)
    wrong = list(_differences(asked, after, said, now))
    return EditResult(edit, Outcome.PARTIAL if wrong else Outcome.DONE, "; ".join(filter(None, (said, *wrong))), after)


def _runs_as_pinned(edit: Pin, job: Job) -> bool:
    slots = edit.slots
    return set(job.nodes) == set(edit.nodes) and (
        slots is None or all(gpus == tuple(sorted(slots)) for gpus in (job.parts if edit.shard else job.gpus))
    )


def _recounted(edit: Edit, before: Job, after: Job) -> Iterator[str]:
    """What the user asked beside nodes and GPUs, and Slurm may have counted anew: tasks, and with them CPUs."""
    tasks, were = after.ntasks, before.ntasks
    # Without -n there are as many on each node as before, however many nodes it now has, and at least one.
    spread = tasks * before.request.min_nodes == were * after.request.min_nodes or were < tasks == len(
        edit.nodes if isinstance(edit, Pin) else ()
    )
    if tasks != were and not spread:
        yield f"tasks are {tasks}, and were {were}"
    same = before.request.min_nodes == after.request.min_nodes
    if same and before.shape and after.shape and after.shape.cpus < before.shape.cpus:
        yield f"CPUs are {after.shape.cpus}, and were {before.shape.cpus}"
    if isinstance(edit, Pin) and edit.shard and _memory(before) != _memory(after):
        yield "its memory is another: what a site gives for each GPU does not count for a part of one"


def _memory(job: Job) -> int:
    return job.shape.mem_on_each(1) if job.shape else 0


def _differences(asked: Rewrite, job: Job, said: str, now: float) -> Iterator[str]:
    yield from _other_texts(asked, job)
    if not job.completing:  # it shows the nodes that it had
        yield from _other_numbers(asked, job, said)
    if asked.nice is not None and job.nice != asked.nice:
        yield f"its nice is {job.nice}, not {asked.nice}"
    eligible = job.eligible or 0
    if asked.begin == NOW and eligible > now + CLOCK_SLACK_S:
        yield f"start time is still {eligible - now:.0f} s away"
    elif asked.begin and abs(eligible - asked.begin) > CLOCK_SLACK_S and asked.begin > now + CLOCK_SLACK_S:
        yield f"start time is {eligible}, not {asked.begin}"


def _other_texts(asked: Rewrite, job: Job) -> Iterator[str]:
    found = {
        "tres_per_node": job.request.per_node,
        "tres_per_job": job.request.per_job,
        "tres_per_task": job.request.per_task,
        "tres_per_socket": job.request.per_socket,
    }
    lists = {"nodes": ("node list", job.required_nodes), "excluded": ("list of excluded nodes", job.excluded_nodes)}
    for name, text in asked.texts.items():
        if name in lists:
            what, stands = lists[name]
            if expand(text) != expand(stands):
                yield f"{what} is {stands!r}, not {text!r}"
        elif name == "partition":
            if text != job.request.partition:
                yield f"partition is {job.request.partition!r}, not {text!r}"
        elif not gres.same(text, found[name]):
            yield f"{name} is {found[name]!r}, not {text!r}"


def _other_numbers(asked: Rewrite, job: Job, said: str) -> Iterator[str]:
    if asked.min_nodes is not None and job.request.min_nodes != asked.min_nodes:
        yield f"least number of nodes is {job.request.min_nodes}, not {asked.min_nodes}"
    # A slurmctld that was restarted has forgotten the most, and takes no new one (26.05): squeue then shows the least.
    forgotten = (0,) if said else (0, job.request.min_nodes)
    if asked.max_nodes is not None and job.request.max_nodes not in (asked.max_nodes, *forgotten):
        yield f"most nodes are {job.request.max_nodes}, not {asked.max_nodes}"


def _stands_alike(before: Job, after: Job) -> bool:
    """Whether the update changed nothing that we can write."""
    return (before.request, before.required_nodes, before.excluded_nodes, before.eligible, before.ntasks) == (
        after.request,
        after.required_nodes,
        after.excluded_nodes,
        after.eligible,
        after.ntasks,
    )
