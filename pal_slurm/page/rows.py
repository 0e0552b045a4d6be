"""Jobs and edits as rows for templates. In: records, who looks. Out: the same, without what is not for him to see."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from pal_slurm.model import Action, Intent, Placement, Reason
from pal_slurm.page.asked import Visit
from pal_slurm.page.sight import Sight
from pal_slurm.page.viewer import Viewer
from pal_slurm.report.life import edit_words
from pal_slurm.report.present import RunningNow, StartNow, WaitingNow, forecast_words
from pal_slurm.report.text import clock
from pal_slurm.report.why import REASONS, where
from pal_slurm.store import JobOutcome

log = logging.getLogger("pal-page")
NOT_SHOWN = "it can't be shown; the journal of pal-page has more"
HOURS_S = 20 * 3600  # of what comes later the day is told


@dataclass(frozen=True, slots=True)
class RunningRow:
    name: str
    user: str  # empty: not for you to see
    app: str
    cls: str
    gpus: int
    where: str
    since: str
    until: str
    score: float | None  # of its slowest GPU, for its class


@dataclass(frozen=True, slots=True)
class WaitingRow:
    place: int
    name: str
    tasks: int
    user: str
    app: str
    gpus: int
    partitions: str
    since: str
    why: str
    slurm: str
    until: str


@dataclass(frozen=True, slots=True)
class EditRow:
    id: int
    job: str
    words: str


@dataclass(frozen=True, slots=True)
class PastRow:
    name: str
    app: str
    gpus: int
    where: str
    start: str
    end: str
    gain: float | None


def name_of(job: int, task: int | None) -> str:
    return str(job) if task is None else f"{job}_{task}"


@lru_cache(maxsize=1024)
def _fault(what: str, error: str) -> None:
    """Once for each row."""
    log.error("%s can't be shown: %s", what, error[:200])


def running_row(job: RunningNow, sight: Sight, viewer: Viewer) -> RunningRow:
    """What is wrong with a job costs its own row, never the page; so for all rows here."""
    try:
        return _running(job, sight, viewer)
    except Exception as error:
        _fault(f"running job {job.job}", repr(error))
        return RunningRow(name_of(job.job, job.task), "", "", "", 0, NOT_SHOWN, "–", "–", None)


def _running(job: RunningNow, sight: Sight, viewer: Viewer) -> RunningRow:
    sees = viewer.sees(job.user)
    marks = [
        sight.scores.gpus[node, slot].marks.get(job.cls)
        for node, slots in zip(job.nodes, job.gpus, strict=False)
        for slot in slots
        if (node, slot) in sight.scores.gpus
    ]
    known = [mark.score for mark in marks if mark is not None and mark.score is not None]
    return RunningRow(
        name_of(job.job, job.task), job.user if sees else "", job.app if sees else "", job.cls if sees else "",
        job.n_gpus, where(Placement(job.nodes, job.gpus, exact=False)), clock(job.start),
        clock(job.end) if job.end else "no limit", max(known, default=None) if sees else None,
    )  # fmt: skip


def waiting_row(place: int, job: WaitingNow, sight: Sight, viewer: Viewer) -> WaitingRow:
    try:
        return _waiting(place, job, sight, viewer)
    except Exception as error:
        _fault(f"waiting job {job.job}", repr(error))
        return WaitingRow(place, name_of(job.job, job.task), 0, "", "", 0, "", "–", NOT_SHOWN, "", "")


def _waiting(place: int, job: WaitingNow, sight: Sight, viewer: Viewer) -> WaitingRow:
    sees = viewer.sees(job.user)
    start = sight.present.forecasts.get(job.job) if sees else None
    return WaitingRow(
        place, name_of(job.job, job.task), job.tasks, job.user if sees else "", job.app if sees else "", job.gpus,
        ", ".join(job.partitions), clock(job.submit), why_it_waits(job), job.slurm,
        until_when(job, sight.now, start),
    )  # fmt: skip


def why_it_waits(job: WaitingNow) -> str:
    """pald's last word on it, in a sentence."""
    if not job.reason:
        return "pald has not decided about it."
    words = REASONS[Reason(job.reason)] if job.reason in set(Reason) else job.reason
    return {Action.START: "It is about to start: " + words, Action.PLAIN: "It is about to start: " + words}.get(
        Action(job.action) if job.action in set(Action) else Action.WAIT, words
    )


def until_when(job: WaitingNow, now: float, start: StartNow | None = None) -> str:
    """When it will probably start, and when it starts should pald be gone. `start`: only for those who see the job."""
    parts = [f"probably {_soon(job.until, now)}"] if job.until is not None else []
    if start is not None:
        parts = [f"expected start {forecast_words(start, now)}"]
    if job.lease is not None:
        parts.append(f"without pald at {_soon(job.lease, now)}")
    return ", ".join(parts)


def _soon(at: float, now: float) -> str:
    return clock(at, "%H:%M:%S" if at - now < 600 else "%H:%M" if at - now < HOURS_S else "%Y-%m-%d %H:%M")


def edits_shown(asked: Visit, edits: Iterable[Intent]) -> list[EditRow]:
    """What slurmctld said of an edit, and why one was made, is only for those who see everything."""
    return [edit_row(edit, asked.viewer.everything) for edit in edits]


def edit_row(edit: Intent, everything: bool) -> EditRow:
    shown = edit if everything else replace(edit, said="", cause="")
    try:
        words = edit_words(shown)
    except Exception as error:
        _fault(f"edit {edit.id}", repr(error))
        words = NOT_SHOWN
    return EditRow(edit.id, name_of(edit.edit.job, edit.edit.task), words)


def past_row(outcome: JobOutcome) -> PastRow:
    try:
        return _past(outcome)
    except Exception as error:
        _fault(f"a start of job {outcome.job}", repr(error))
        return PastRow(name_of(outcome.ref.id, outcome.task), "", 0, NOT_SHOWN, "–", "–", None)


def _past(outcome: JobOutcome) -> PastRow:
    ours, theirs = outcome.step_time, outcome.slurm_step_time
    return PastRow(
        name_of(outcome.ref.id, outcome.task), outcome.app or "", sum(map(len, outcome.gpus)),
        where(Placement(outcome.nodes, outcome.gpus, exact=False)), clock(outcome.start),
        clock(outcome.end) if outcome.end else "runs", theirs / ours - 1.0 if ours and theirs is not None else None,
    )  # fmt: skip
