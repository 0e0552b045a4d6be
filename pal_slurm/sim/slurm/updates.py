"""scontrol update, as each release does it. In: a target, fields. Out: slurmctld's words; jobs edited as far as it got.

Not atomic: what was set before a field is refused stays set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pal_slurm.model import fence_of
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.slurm import gres
from pal_slurm.slurm.capabilities import capabilities_of, parse_release
from pal_slurm.slurm.edits.rewrite import Rewrite
from pal_slurm.slurm.nodes import ReservationRecord
from pal_slurm.slurm.nodeset import expand, fold
from pal_slurm.slurm.records import JobRecord, read_tasks

_TARGET = re.compile(r"([0-9]+)(?:_([0-9]+|\[[0-9,-]+\]))?")
_RECOUNTS = (24, 11, 0)
_FIELDS = {"tres_per_node": "per_node", "tres_per_job": "per_job", "tres_per_task": "per_task"} | {
    "tres_per_socket": "per_socket"
}
NO_SUCH, NOT_PENDING = "Invalid job id specified", "Job is no longer pending execution"
MIXED = "Invalid GRES specification (with and without type identification)"
NO_PARTS = "Invalid generic resource (gres) specification"
HALF = "Unspecified error"


def update(c: Controller, target: str, asked: Rewrite, *, half: bool = False) -> str:
    """What slurmctld says; nothing when all went well."""
    jobs = list(meant(c, target))
    if asked.requeue:
        refused = [_requeue(c, job) for job in jobs if job.running]
        if half or any(refused):
            return next(filter(None, refused), HALF)
    said = [_update(c, job, asked, half) for job in jobs] if jobs else [NO_SUCH]
    c.stir()
    return next(filter(None, said), "")


def signal(c: Controller, target: str, asked: Rewrite) -> str:
    """scancel --signal."""
    jobs = [job for job in meant(c, target) if job.running]
    for job in jobs:
        c.signal(job.record.id, asked.signal, to_script=asked.to_script)
    return "" if jobs else "Job/step already completing or completed"


def fence(c: Controller, job: int, asked: Rewrite) -> str:
    """scontrol create reservation; it ends by itself."""
    name, end = fence_of(job), asked.begin or 0
    if any(found.name == name for found in c.reservations):
        return "Requested reservation name is in use"
    if not set(asked.fence) <= c.row.keys():
        return "Requested nodes are not known"
    c.reserve(ReservationRecord(name, fold(asked.fence), int(c.now), end, ["IGNORE_JOBS", "OVERLAP"]))
    return ""


def _requeue(c: Controller, job: SimJob) -> str:
    """scontrol requeue incomplete."""
    if job.record.batch == 0:
        return "Only batch jobs are accepted or processed"
    if not job.record.requeue:
        return "Requested operation is presently disabled"
    c.requeue(job.record.id)
    return ""


def meant(c: Controller, target: str) -> Iterator[SimJob]:
    """A bare id also reaches all tasks of an array; tasks that share its record are split off, unless all are meant."""
    match = _TARGET.fullmatch(target)
    if match is None:
        return
    number, tasks = int(match[1]), read_tasks(match[2] or "")
    for job in c.family(number):
        waiting = job.job().array_tasks
        if not tasks or (waiting and set(waiting) <= set(tasks)) or job.record.array_task in tasks:
            yield job
        else:
            yield from [c.split(job, task) for task in tasks if task in waiting]


@dataclass(frozen=True, slots=True)
class _Step:
    refused: str
    carry_out: Callable[[], None]


def _update(c: Controller, job: SimJob, asked: Rewrite, half: bool) -> str:
    if not (job.pending or job.back or asked.begin is None):
        return NOT_PENDING
    texts = asked.texts
    if "partition" in texts and not set(texts["partition"].split(",")) <= {p.name for p in c.partitions}:
        return "Invalid partition name specified"
    if "excluded" in texts and not job.pending:
        return NOT_PENDING
    if not expand(texts.get("nodes", "")) | expand(texts.get("excluded", "")) <= c.row.keys():
        return "Invalid node name specified"
    steps = list(_steps(c, job, asked))
    for step in steps[: len(steps) // 2] if half else steps:
        if step.refused:
            job.changed()
            return step.refused
        step.carry_out()
    if job.running and not job.back:
        job.changed()
        return ""
    if job.recounts and parse_release(c.setup.release) >= _RECOUNTS:
        job.record.ntasks = 1
    if not (job.back or job.held):
        job.says("None")
    job.changed()
    return HALF if half else ""


def _steps(c: Controller, job: SimJob, asked: Rewrite) -> Iterator[_Step]:
    """In slurmctld's own order."""
    record, texts = job.record, asked.texts

    def put(name: str, value: object) -> Callable[[], None]:
        return lambda: setattr(record, name, value)

    if "partition" in texts:
        yield _Step("", put("partition", texts["partition"]))
    if "nodes" in texts:
        yield _Step("", put("required_nodes", texts["nodes"]))
    if "excluded" in texts:
        yield _Step("", put("excluded_nodes", texts["excluded"]))
    for name, text in texts.items():
        if name in _FIELDS:
            able = capabilities_of(c.setup.release)
            mixed = "" if able.restore_untyped else _mixed(job, _FIELDS[name], text)
            if ("shard" in text and not able.parts) or not _either(record, texts):
                mixed = NO_PARTS
            yield _Step(
                mixed, put(_FIELDS[name], text if able.repin else _merged(getattr(record, _FIELDS[name]), text))
            )
    job.typed = job.typed or gres.names_slots(*texts.values())
    least = record.num_nodes or 1 if asked.min_nodes is None else asked.min_nodes
    if asked.max_nodes is not None and asked.max_nodes < least:
        yield _Step("Node count specification invalid", put("max_nodes", asked.max_nodes))
    if asked.min_nodes is not None:
        yield _Step("", put("num_nodes", asked.min_nodes))
    if asked.max_nodes is not None:
        yield _Step("", put("max_nodes", asked.max_nodes))

    yield from _when(c, job, asked)


def _either(record: JobRecord, texts: Mapping[str, str]) -> bool:
    """Whole GPUs and parts of some in one request are refused."""
    then = [texts.get(name, getattr(record, field)) for name, field in _FIELDS.items()]
    return not (any(map(gres.count_of, then)) and any("shard" in text for text in then))


def _when(c: Controller, job: SimJob, asked: Rewrite) -> Iterator[_Step]:
    if asked.anew:
        yield _Step("", lambda: c.reckon_anew(job))
    if asked.nice is not None:
        yield _Step("", lambda: _renice(job, asked.nice or 0))

    def begin() -> None:
        job.begin = asked.begin or c.now
        if job.back:
            job.record.eligible = int(job.begin)
        else:
            c.settle(job)

    if asked.begin is not None:
        yield _Step("", begin)
    if asked.hold:
        yield _Step("", lambda: c.held(job, "JobHeldUser" if asked.hold == "uhold" else "JobHeldAdmin"))


def _renice(job: SimJob, nice: int) -> None:
    """priority/basic: the priority follows at once; one of 0 too, so that a held job is held no more."""
    record, job.held = job.record, False
    record.priority = max(2, (record.priority or 0) + (record.nice or 0) - nice)
    record.nice = nice


def _merged(had: str, text: str) -> str:
    """22.05 adds slots to those that were asked for before."""
    if not (gres.names_slots(had) and gres.names_slots(text)) or gres.same(had, text):
        return text
    return ",".join(dict.fromkeys((*had.split(","), *text.split(","))))


def _mixed(job: SimJob, field: str, text: str) -> str:
    """22.05 merges a request into the one that it had: no field is typed and untyped, and types never go away."""
    had, typed = getattr(job.record, field), gres.names_slots(text)
    clash = gres.count_of(had) and typed and not gres.names_slots(had)
    return MIXED if clash or (job.typed and gres.count_of(text) and not typed) else ""
