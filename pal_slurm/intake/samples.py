"""A job's file as samples. In: JobPart. Out: JobSample, a few minutes each.

Processes of one job step together, so the ranks' step times are one time: their median. Each rank's slowest step of a
stretch is left out where there are several: a checkpoint or a stalled file system is not the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import TypeVar

from pal_slurm.probe.document import JobPart, StepTimes, Usage
from pal_slurm.store.samples import HIS_WORD, JobSample

STRETCH_S = 600.0
T = TypeVar("T", StepTimes, Usage)


def samples_of(part: JobPart, digest: str, cluster: str, user: str = "", *, his_word: bool = False) -> list[JobSample]:
    """One per stretch of ten minutes in which the job did anything. `his_word`: its user wrote the file."""
    gpus = tuple(sorted({usage.uuid for usage in part.usage} or {device.uuid for device in part.devices}))
    if not gpus:
        return []
    steps = _by_stretch(part.steps)
    usage = _by_stretch(part.usage)
    made: list[JobSample] = []
    for stretch in sorted({*steps, *usage}):
        ran, used = steps.get(stretch, []), usage.get(stretch, [])
        times: list[StepTimes | Usage] = [*ran, *used]
        made.append(
            JobSample(
                document=f"{digest[:48]}-{len(made)}{HIS_WORD if his_word else ''}",
                cluster=cluster,
                job=part.job,
                app=next((s.app for s in ran if s.app), part.app),
                node=part.node,
                gpus=gpus,
                begun_at=min(t.begun_at for t in times),
                ended_at=max(t.ended_at for t in times),
                steps=max((sum(s.count for s in ran if s.rank == rank) for rank in {s.rank for s in ran}), default=0),
                step_seconds=_step_seconds(ran),
                compute=_mean(_compute(u) for u in used),
                memory=_mean(_memory(u) for u in used),
                user=user,
            )
        )
    return made


def _by_stretch(lines: Sequence[T]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for line in lines:
        found.setdefault(int(line.begun_at // STRETCH_S), []).append(line)
    return found


def _step_seconds(ran: Sequence[StepTimes]) -> float | None:
    times = [_typical(s) for s in ran if s.count and s.seconds > 0]
    return median(times) if times else None


def _typical(s: StepTimes) -> float:
    return (s.seconds - s.slowest) / (s.count - 1) if s.count > 2 and s.seconds > s.slowest else s.seconds / s.count


def _compute(usage: Usage) -> float | None:
    """Of the multiprocessors where the GPU tells (GPM, DCGM), else of the time in which any kernel ran."""
    t = usage.telemetry
    return t.sm_active if t.sm_active is not None else t.util_compute


def _memory(usage: Usage) -> float | None:
    t = usage.telemetry
    return t.dram_active if t.dram_active is not None else t.util_memory


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
