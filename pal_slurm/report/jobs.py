"""Jobs as rows. In: last decisions, what jobs really got. Out: one row per job or array task, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import JobRef, Placement
from pal_slurm.report.sharing import beside
from pal_slurm.report.text import Value
from pal_slurm.report.why import still_true, where
from pal_slurm.store import JobOutcome, Why

FIELDS = (
    "job", "task", "app", "class", "gpus", "action", "reason", "where", "step_time", "slurm_step_time", "gain",
    "moves", "beside", "beside_cost", "beside_gain", "beside_gpu_s", "as_pinned", "start", "end", "submit",
    "decided_at", "actuator",
)  # fmt: skip
DEFAULT = (
    "job", "task", "app", "class", "gpus", "action", "reason", "where", "step_time", "slurm_step_time", "gain",
    "moves",
)  # fmt: skip

TIMES = ("start", "end", "submit", "decided_at")


def job_rows(decided: Sequence[Why], got: Sequence[JobOutcome], most: int) -> list[dict[str, Value]]:
    """What a job really got stands in the place of what was decided."""
    rows: dict[JobRef, dict[str, Value]] = {}
    decided = still_true(decided)
    for why in decided:
        rows[why.ref] = _decided(why)
    for outcome in sorted(got, key=lambda o: o.start):
        rows.setdefault(outcome.ref, _blank(outcome)).update(_got(outcome))
    for why in decided:
        rows[why.ref] |= beside(why, got)
    return sorted(rows.values(), key=lambda row: (row["submit"], row["job"], row["task"] or 0), reverse=True)[:most]


def _decided(why: Why) -> dict[str, Value]:
    d = why.decision
    return {
        "job": d.job,
        "task": d.task,
        "app": why.app,
        "class": why.cls,
        "gpus": why.gpus,
        "action": d.action.value,
        "reason": d.reason.value,
        "where": where(d.placement) if d.placement else None,
        "step_time": d.step_time,
        "slurm_step_time": d.slurm_step_time,
        "gain": _gain(d.step_time, d.slurm_step_time),
        "moves": why.consent.given.value,
        "as_pinned": None,
        "start": None,
        "end": None,
        "submit": why.submit,
        "decided_at": why.decided_at,
        "actuator": why.actuator,
    }


def _blank(o: JobOutcome) -> dict[str, Value]:
    row: dict[str, Value] = dict.fromkeys(FIELDS)
    row |= {"job": o.ref.id, "task": o.task, "app": o.app, "class": o.cls, "submit": o.submit}
    return row


def _got(o: JobOutcome) -> dict[str, Value]:
    return {
        "action": "ended" if o.end else "runs",
        "gpus": sum(map(len, o.gpus)),
        "where": where(Placement(o.nodes, o.gpus, exact=False)),
        "step_time": o.step_time,
        "slurm_step_time": o.slurm_step_time,
        "gain": _gain(o.step_time, o.slurm_step_time),
        "as_pinned": o.as_pinned,
        "start": o.start,
        "end": o.end,
    }


def _gain(ours: float | None, slurms: float | None) -> float | None:
    """How much longer a step would take where Slurm itself would have put the job: 0.2 is 20 %."""
    return None if not ours or slurms is None else slurms / ours - 1.0
