"""Writes edits through scontrol. In: edits. Out: one EditResult each, judged by re-reading.

All updates go down the standard input of one scontrol. Before each stands a word that scontrol does not know and so
repeats on stderr: what it says between two of them belongs to one update. Nothing of a job's own texts is ever sent,
but its original request, whose characters edits/rewrite.py has checked.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Edit, EditResult, Job, Outcome
from pal_slurm.slurm.commands.read import QueueReader
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.edits.insist import insist
from pal_slurm.slurm.edits.judge import judge
from pal_slurm.slurm.edits.prepare import Ready, prepare_all, record_of
from pal_slurm.slurm.edits.rewrite import NOW
from pal_slurm.slurm.port import Capabilities
from pal_slurm.slurm.records import to_job
from pal_slurm.words import printable

BATCH = 128  # edits per scontrol: the read before each batch is never long ago
EACH_S = 0.05  # what one update may take, beside the deadline of the call
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

    ready: Ready
    said: str = ""
    answered: bool = False


class Writer:
    def __init__(self, commands: Commands, reader: QueueReader) -> None:
        self._commands = commands
        self._reader = reader

    def apply(self, edits: Sequence[Edit], caps: Capabilities, may_name_nodes: bool) -> list[EditResult]:
        results: list[EditResult] = []
        try:
            for batch in _batches(edits):
                results += self._apply(batch, caps, may_name_nodes)
        except SlurmUnavailable as error:
            # One batch that gets no answer is enough: the rest would cost a deadline each.
            said = f"nothing was written: {error}"
            results += [EditResult(edit, Outcome.UNKNOWN, said) for edit in edits[len(results) :]]
        return results

    def _apply(self, edits: Sequence[Edit], caps: Capabilities, may_name_nodes: bool) -> list[EditResult]:
        stands = self._read(edit.job for edit in edits)
        done: dict[int, EditResult] = {}
        writes: dict[int, _Write] = {}
        for place, ready in enumerate(prepare_all(edits, stands.values(), caps, may_name_nodes, time.time())):
            if isinstance(ready, Ready):
                writes[place] = _Write(ready)
            else:
                done[place] = ready
        if writes:
            insist(sorted(writes.values(), key=lambda write: write.ready.turn), self._write, lambda write: write.said)
            for place, result in zip(writes, self._judge(list(writes.values())), strict=True):
                done[place] = result
        return [done[place] for place in range(len(edits))]

    def _read(self, ids: Iterable[int]) -> dict[int, Job]:
        wanted = list(dict.fromkeys(ids))
        return {record.id: to_job(record) for record in self._reader.some(wanted).records}

    def _write(self, writes: Sequence[_Write]) -> None:
        nonce = f"pal{secrets.token_hex(12)}x"
        lines = [f"{nonce}{i}\n{update_line(write.ready)}\n" for i, write in enumerate(writes)]
        script = "".join((*lines, f"{nonce}{len(writes)}\n")).encode("ascii")
        answer = self._commands.run("scontrol", (), script, self._commands.deadline_s + EACH_S * len(writes))
        heard = answer.err.decode("utf-8", "replace")
        for i, write in enumerate(writes):
            _, begun, rest = heard.partition(f"invalid keyword: {nonce}{i}\n")
            said, ended, _ = rest.partition(f"invalid keyword: {nonce}{i + 1}\n")
            write.said = printable(said)
            write.answered = bool(begun and ended)

    def _judge(self, writes: Sequence[_Write]) -> list[EditResult]:
        try:
            after = self._read(job for write in writes for job in write.ready.homes)
        except SlurmUnavailable as error:
            said = f"written, and can't be read again: {error}"
            return [EditResult(write.ready.edit, Outcome.UNKNOWN, said) for write in writes]
        now = time.time()
        return [_verdict(write, after, now) for write in writes]


def _batches(edits: Sequence[Edit]) -> Iterable[Sequence[Edit]]:
    return (edits[start : start + BATCH] for start in range(0, len(edits), BATCH))


def update_line(ready: Ready) -> str:
    """The one line of scontrol that makes this edit."""
    asked = ready.asked
    parts = [f"update JobId={ready.target}"]
    parts += [f"{_FIELDS[name]}={text}" for name, text in asked.texts.items()]
    if asked.min_nodes is not None:
        parts.append(f"NumNodes={asked.min_nodes}-{asked.max_nodes}")
    parts.append("StartTime=now" if asked.begin == NOW else f"StartTime=uts{asked.begin}")
    return " ".join(parts)


def _verdict(write: _Write, after: dict[int, Job], now: float) -> EditResult:
    ready = write.ready
    found = record_of(ready.before.id, ready.edit.task, after.values())
    result = judge(ready.edit, ready.asked, ready.before, found, write.said, now)
    if not write.answered and result.outcome is Outcome.REFUSED:
        return replace(result, outcome=Outcome.UNKNOWN, said="slurmctld gave no answer in time; it may still act on it")
    return result
