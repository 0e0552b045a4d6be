"""What of a job's file can be. In: a JobPart, who wrote it, what Slurm knows of the job. Out: whose it is, the rest.

A file that root or pal wrote is the node's word: it saw the processes. One that a user wrote (`pal-probe watch --job`,
in a spool that is open to everybody) is that user's word, of his own jobs and their GPUs only. In both, step times are
the job's own claim: they have to fit into the time that the job had. Of which GPU a job has a part no node can tell,
for others compute on it too: pald saw that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pal_slurm.errors import BadInput
from pal_slurm.probe.claims import impossible
from pal_slurm.probe.document import Device, JobPart, StepTimes, Usage
from pal_slurm.store import JobOutcome

SLACK_S = 60.0  # clocks of nodes and slurmctld; pald sees an end with its next look
Places = Mapping[str, tuple[str, int]]  # where each card sits, by UUID


class NotYetKnown(BadInput):
    """Slurm may still tell whose job it was."""


@dataclass(frozen=True, slots=True)
class Believed:
    part: JobPart
    user: str  # empty: nobody knows
    refused: int = 0  # reports that can't be
    said: str = ""


def believed(
    part: JobPart, writer: str, named: str, starts: Sequence[JobOutcome], places: Places, now: float
) -> Believed:
    """`writer`: the user whose file it is, empty: the house's; `named`: whom the node named; `starts`: of that job."""
    ran = _ran(part, starts) or list(starts[:1] if writer else ())
    if writer:
        if not ran or not ran[0].user:
            raise NotYetKnown(f"written by {writer}, and pald knows of no job {part.job} at that time")
        if ran[0].user != writer:
            raise BadInput(f"written by {writer}, and job {part.job} was another user's")
        _his_own(part, ran, places)
    elif ran and all(part.node not in start.nodes for start in ran):
        raise BadInput(f"job {part.job} did not run on {part.node}")
    spans = [(start.start - SLACK_S, (now if start.end is None else min(start.end, now)) + SLACK_S) for start in ran]
    kept, faults = _possible(part, spans)
    if not (part.devices or part.usage):
        part = replace(part, devices=_shared(part.node, ran, places))
    user = (ran[0].user if ran else "") or writer or named
    app = (ran[0].app if ran else None) or part.app
    steps = (
        tuple(replace(each, app=None) for each in kept) if app else kept
    )  # Slurm's record goes before the job's word
    usage = tuple(each for each in part.usage if not writer or _within(each, spans))
    said = f"{len(faults)} of {len(part.steps)} step reports left out: {faults[0]}" if faults else ""
    return Believed(replace(part, app=app, steps=steps, usage=usage), user, len(faults), said)


def _ran(part: JobPart, starts: Sequence[JobOutcome]) -> list[JobOutcome]:
    """All starts of the job that this can be about, the newest first; numbers come round again."""
    before = sorted((s for s in starts if s.start <= part.ended_at + SLACK_S), key=lambda s: -s.start)
    return [s for s in before if s.submit == before[0].submit]


def _shared(node: str, ran: Sequence[JobOutcome], places: Places) -> tuple[Device, ...]:
    """The GPUs of this node of which the job had parts."""
    had = _had(start for start in ran if start.shared)
    found = sorted((uuid, slot) for uuid, (at, slot) in places.items() if at == node and (at, slot) in had)
    return tuple(Device(uuid, node, slot, "", "pald") for uuid, slot in found)


def _had(ran: Iterable[JobOutcome]) -> set[tuple[str, int]]:
    """Nodes and slots."""
    return {
        (node, slot)
        for start in ran
        for node, slots in zip(start.nodes, start.gpus, strict=False)
        for slot in slots
    }  # fmt: skip


def _his_own(part: JobPart, ran: Sequence[JobOutcome], places: Places) -> None:
    had = _had(ran)
    for device in part.devices:
        if places.get(device.uuid) not in had or places[device.uuid][0] != part.node:
            raise BadInput(f"job {part.job} did not have the GPU {device.uuid} on {part.node}")


def _possible(part: JobPart, spans: Sequence[tuple[float, float]]) -> tuple[tuple[StepTimes, ...], list[str]]:
    """Reports that fit into the job's time, all together too; and why the others don't."""
    room = sum(ended - begun for begun, ended in spans) * max(1, len(part.devices))  # torchrun: ranks of one number
    used: dict[int, float] = {}
    kept, faults = [], []
    for each in part.steps:
        fault = impossible(each)
        if not fault and (not _within(each, spans) or each.ended_at > part.ended_at + SLACK_S):
            fault = "it tells of a time in which the job did not run"
        if not fault and spans and used.get(each.rank, 0.0) + each.seconds > room:
            fault = "all together claim more time than the job had"
        if fault:
            faults.append(fault)
            continue
        used[each.rank] = used.get(each.rank, 0.0) + each.seconds
        kept.append(each)
    return tuple(kept), faults


def _within(each: StepTimes | Usage, spans: Sequence[tuple[float, float]]) -> bool:
    return not spans or any(begun <= each.begun_at and each.ended_at <= ended for begun, ended in spans)
