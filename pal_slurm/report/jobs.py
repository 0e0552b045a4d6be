"""Jobs as rows. In: last decisions, what jobs really got. Out: one row per job or array task, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pal_slurm.model import JobRef, Placement
from pal_slurm.report.present import FORECAST, Present, StartNow, forecast_words
from pal_slurm.report.sharing import beside
from pal_slurm.report.text import Row, Value, shown
from pal_slurm.report.why import still_true, where
from pal_slurm.store import JobOutcome, Why

FIELDS = (
    "job", "task", "user", "name", "state", "app", "class", "gpus", "action", "reason", "where",
    "step_time", "slurm_step_time", "gain", "moves", "beside", "beside_cost", "beside_gain", "beside_gpu_s",
    "as_pinned", "start", "end", "submit", "decided_at", "actuator", *FORECAST,
)  # fmt: skip
DEFAULT = ("job", "user", "name", "state", "gpus", "where")
WIDTH = 80  # of a table of these, whatever users call themselves and their jobs
PENDING = (*DEFAULT[:-1], "expected_start")
STATES = ("pending", "running", "ended", "gone")
TIMES = ("start", "end", "submit", "decided_at", *FORECAST)


def job_rows(
    decided: Sequence[Why], got: Sequence[JobOutcome], most: int, present: Present | None = None
) -> list[dict[str, Value]]:
    """What a job really got stands in the place of what was decided.

    `present`: what pald sees now; a job that waited and is not there is gone. None: nobody tells.
    """
    there = None if present is None else {job.job for job in present.running} | {job.job for job in present.waiting}
    rows: dict[JobRef, dict[str, Value]] = {}
    decided = still_true(decided)
    newest: dict[tuple[int, int | None], int] = {}  # a job that Slurm requeued has another submit time
    for ref in (*(why.ref for why in decided), *(outcome.ref for outcome in got)):
        newest[ref.id, ref.task] = max(ref.submit, newest.get((ref.id, ref.task), ref.submit))
    for why in decided:
        waits = why.submit == newest[why.ref.id, why.ref.task] and (there is None or why.ref.id in there)
        state = "pending" if waits else "gone"
        rows[why.ref] = _decided(why) | {"state": state}
    for outcome in sorted(got, key=lambda o: o.start):
        rows.setdefault(outcome.ref, _blank(outcome)).update(_got(outcome))
    for why in decided:
        rows[why.ref] |= beside(why, got)
        if present is None or rows[why.ref]["state"] != "pending":
            rows[why.ref] |= dict.fromkeys(FORECAST)
        else:
            rows[why.ref] |= present.forecast(why.ref.id)
    return sorted(rows.values(), key=lambda row: (row["submit"], row["job"], row["task"] or 0), reverse=True)[:most]


def _decided(why: Why) -> dict[str, Value]:
    d = why.decision
    return {
        "job": d.job,
        "task": d.task,
        "user": why.user or None,
        "name": why.name or None,
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
    row |= {"user": o.user or None, "name": o.named}
    return row


def _got(o: JobOutcome) -> dict[str, Value]:
    return {
        "action": "ended" if o.end else "runs",
        "state": "ended" if o.end else "running",
        "gpus": sum(map(len, o.gpus)),
        "where": where(Placement(o.nodes, o.gpus, exact=False)),
        "step_time": o.step_time,
        "slurm_step_time": o.slurm_step_time,
        "gain": _gain(o.step_time, o.slurm_step_time),
        "as_pinned": o.as_pinned,
        "start": o.start,
        "end": o.end,
    }


def chosen(rows: Iterable[Row], user: str, app: str, state: str, since: float | None) -> list[Row]:
    """Those of one user, of one application, in one state, that came, started or ended since then."""
    return [
        row
        for row in rows
        if (not user or row["user"] == user)
        and (not app or row["app"] == app)
        and (not state or row["state"] == state)
        and (since is None or any(isinstance(at := row[t], int) and at >= since for t in ("submit", "start", "end")))
    ]


def narrow(rows: Sequence[Row], columns: Sequence[str] = DEFAULT) -> list[Row]:
    """For a table of DEFAULT, or of PENDING: a task as Slurm writes it, and texts cut so that a line fits; a `+` where
    one is."""
    cells: list[dict[str, Value]] = []
    for row in rows:
        job = f"{row['job']}" if row["task"] is None else f"{row['job']}_{row['task']}"
        texts = {name: _cut(shown(row[name]), most) for name, most in (("user", 12), ("name", 20))}
        last = {"where": row["where"], "expected_start": _expected(row)}
        cells.append({"job": job, "state": row["state"], "gpus": row["gpus"], **last, **texts})
    wide = sum(max([len(name), *(len(shown(row[name])) for row in cells)]) + 2 for name in columns[:-1])
    return [row | {"where": _cut(shown(row["where"]), max(len("where"), WIDTH - wide))} for row in cells]


def _expected(row: Row) -> str | None:
    expected, early, late, at = (row[name] for name in FORECAST)
    if not (isinstance(expected, float) and isinstance(early, float) and isinstance(late, float)):
        return None
    return forecast_words(StartNow(expected, early, late), at if isinstance(at, float) else expected)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "+"


def _gain(ours: float | None, slurms: float | None) -> float | None:
    """How much longer a step would take where Slurm itself would have put the job: 0.2 is 20 %."""
    return None if not ours or slurms is None else slurms / ours - 1.0
