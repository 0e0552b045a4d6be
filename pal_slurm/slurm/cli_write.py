"""Writes edits through scontrol. In: edits. Out: one EditResult each, judged by re-reading.

All updates go down the standard input of one scontrol. Before each stands a word that scontrol does not know and so
repeats on stderr: what it says between two of them belongs to one update. Nothing of a job's own texts is ever sent,
but its original request, whose characters rewrite.py has checked.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Edit, EditResult, Job, JobState, Outcome
from pal_slurm.slurm.cli_read import QueueReader
from pal_slurm.slurm.cli_run import Commands, printable
from pal_slurm.slurm.judge import judge
from pal_slurm.slurm.port import Capabilities
from pal_slurm.slurm.records import to_job
from pal_slurm.slurm.rewrite import NOW, Refused, Rewrite, rewrite

BATCH = 128  # edits per scontrol: the read before each batch is never long ago
DEADLINE_S = 15.0
SAFE_AHEAD_S = 5.0  # without disable_job_shrink: how far off a job's start must be for a node list to be sent
EACH_S = 0.5  # beside it: what one update may take under load
_FIELDS = {
    "nodes": "ReqNodeList",
    "partition": "Partition",
    "tres_per_node": "TresPerNode",
    "tres_per_job": "TresPerJob",
    "tres_per_task": "TresPerTask",
    "tres_per_socket": "TresPerSocket",
}


@dataclass(slots=True)
class _Write:
    """One edit on its way."""

    edit: Edit
    before: Job
    asked: Rewrite
    said: str = ""
    answered: bool = False


class Writer:
    def __init__(self, commands: Commands, reader: QueueReader) -> None:
        self._commands = commands
        self._reader = reader

    def apply(self, edits: Sequence[Edit], caps: Capabilities, may_name_nodes: bool) -> list[EditResult]:
        results: list[EditResult] = []
        for batch in _batches(edits):
            results += self._apply(batch, caps, may_name_nodes)
        return results

    def _apply(self, edits: Sequence[Edit], caps: Capabilities, may_name_nodes: bool) -> list[EditResult]:
        try:
            stands = self._read(edit.job for edit in edits)
        except SlurmUnavailable as error:
            return [EditResult(edit, Outcome.UNKNOWN, f"nothing was written: {error}") for edit in edits]
        done: dict[int, EditResult] = {}
        writes: dict[int, _Write] = {}
        for place, edit in enumerate(edits):
            ready = _prepare(edit, stands, caps, may_name_nodes)
            if isinstance(ready, EditResult):
                done[place] = ready
            else:
                writes[place] = ready
        if writes:
            self._write(list(writes.values()))
            for place, result in zip(writes, self._judge(list(writes.values())), strict=True):
                done[place] = result
        return [done[place] for place in range(len(edits))]

    def _read(self, ids: Iterable[int]) -> dict[int, Job]:
        wanted = list(dict.fromkeys(ids))
        return {record.id: to_job(record) for record in self._reader.some(wanted).records}

    def _write(self, writes: Sequence[_Write]) -> None:
        nonce = f"pal{secrets.token_hex(12)}x"
        lines = [f"{nonce}{i}\n{update_line(w.edit, w.before, w.asked)}\n" for i, w in enumerate(writes)]
        script = "".join((*lines, f"{nonce}{len(writes)}\n")).encode("ascii")
        answer = self._commands.run("scontrol", (), script, DEADLINE_S + EACH_S * len(writes))
        heard = answer.err.decode("utf-8", "replace")
        for i, write in enumerate(writes):
            _, begun, rest = heard.partition(f"invalid keyword: {nonce}{i}\n")
            said, ended, _ = rest.partition(f"invalid keyword: {nonce}{i + 1}\n")
            write.said = printable(said)
            write.answered = bool(begun and ended)

    def _judge(self, writes: Sequence[_Write]) -> list[EditResult]:
        try:
            after = self._read(id_ for write in writes for id_ in _homes(write))
        except SlurmUnavailable as error:
            return [
                EditResult(write.edit, Outcome.UNKNOWN, f"written, and can't be read again: {error}")
                for write in writes
            ]
        now = time.time()
        return [_verdict(write, after, now) for write in writes]


def _batches(edits: Sequence[Edit]) -> Iterable[Sequence[Edit]]:
    return (edits[start : start + BATCH] for start in range(0, len(edits), BATCH))


def _prepare(edit: Edit, stands: dict[int, Job], caps: Capabilities, may_name_nodes: bool) -> EditResult | _Write:
    """The write, or why there is none."""
    job = _record_of(edit.job, edit.task, stands.values())
    if job is None:
        return EditResult(edit, Outcome.GONE, "no such job waits any more")
    if not job.pending:
        return EditResult(
            edit, Outcome.STARTED if job.state is JobState.RUNNING else Outcome.GONE, "it waits no more", job
        )
    asked = rewrite(edit, job, caps)
    if isinstance(asked, Refused):
        return EditResult(edit, Outcome.REFUSED, asked.why, job)
    if asked.texts.get("nodes") and not may_name_nodes and (job.eligible or 0) <= time.time() + SAFE_AHEAD_S:
        # On a job that has just started a node list means: shrink, and Slurm kills the steps on the other nodes.
        return EditResult(edit, Outcome.REFUSED, "it may start at any moment, and disable_job_shrink is not set", job)
    return _Write(edit, job, asked)


def update_line(edit: Edit, job: Job, asked: Rewrite) -> str:
    """The one line of scontrol that makes this edit."""
    parts = [f"update JobId={_target(edit, job)}"]
    parts += [f"{_FIELDS[name]}={text}" for name, text in asked.texts.items()]
    if asked.min_nodes is not None:
        parts.append(f"NumNodes={asked.min_nodes}-{asked.max_nodes}")
    parts.append("StartTime=now" if asked.begin == NOW else f"StartTime=uts{asked.begin}")
    return " ".join(parts)


def _target(edit: Edit, job: Job) -> str:
    """The job as scontrol is to be told. An array's bare id would also reach tasks that have records of their own."""
    if job.array_id is None:
        return str(job.id)
    if edit.task is not None:
        return f"{job.array_id}_{edit.task}"
    if job.array_task is not None:
        return f"{job.array_id}_{job.array_task}"
    return f"{job.array_id}_[{fold_tasks(job.array_tasks)}]"


def fold_tasks(tasks: Sequence[int]) -> str:
    """1, 2, 3, 7 as `1-3,7`."""
    runs: list[list[int]] = []
    for task in tasks:
        if runs and task == runs[-1][1] + 1:
            runs[-1][1] = task
        else:
            runs.append([task, task])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _homes(write: _Write) -> tuple[int, ...]:
    """Ids under which the edited record may be found again: a task that was split off has a new one."""
    array = write.before.array_id
    return (write.before.id,) if array is None or write.edit.task is None else (write.before.id, array)


def _record_of(job: int, task: int | None, records: Iterable[Job]) -> Job | None:
    """The record of this id; with a task, the record that holds it now."""
    if task is None:
        return next((r for r in records if r.id == job), None)
    arrays = [r for r in records if r.id == job or r.array_id is not None]
    home = next((r.array_id for r in arrays if r.id == job), job)
    mine = [r for r in arrays if r.array_id == home and (r.array_task == task or task in r.array_tasks)]
    return next(iter(mine), None)


def _verdict(write: _Write, after: dict[int, Job], now: float) -> EditResult:
    found = _record_of(write.before.id, write.edit.task, after.values())
    result = judge(write.edit, write.asked, write.before, found, write.said, now)
    if not write.answered and result.outcome is Outcome.REFUSED:
        return replace(result, outcome=Outcome.UNKNOWN, said="slurmctld gave no answer in time; it may still act on it")
    return result
