"""What placement gains, or would gain. In: last decisions and what jobs really got. Out: rows per class, and over all.

Pinned jobs: the step time predicted for Slurm's own choice over the one for what the job got. Shadow: the one for what
the job got over the one for what pald would have chosen. Both by the one equation, from scores as they were then.
It says nothing of waiting: only a simulation or a run can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median

from pal_slurm.model import Action
from pal_slurm.report.text import Value
from pal_slurm.scores.student import t95
from pal_slurm.store import JobOutcome, Why

FIELDS = (
    "class",
    "jobs",
    "gpus",
    "better",
    "same",
    "worse",
    "median_gain",
    "mean_gain",
    "gpu_hours",
    "gpu_hours_saved",
)


@dataclass(frozen=True, slots=True)
class Gained:
    cls: str
    gpus: int
    gain: float  # 0.2: a step takes 20 % longer without us
    gpu_hours: float  # that it really used
    saved: float  # GPU hours that were, or would have been, saved
    who: tuple[str, str] = ("", "")  # user and application: what they run again says the same again


@dataclass(frozen=True, slots=True)
class GainedShare:
    """GPU hours saved over those used, and how sure that is."""

    jobs: int
    gpu_hours: float
    saved: float
    share: float
    reach: float | None  # of the 95 % interval, to either side; None: too few users and applications to tell


def gained_share(found: Sequence[Gained]) -> GainedShare | None:
    """The interval leaves out one user's application at a time (jackknife): its jobs are no news of each other."""
    hours, saved = sum(g.gpu_hours for g in found), sum(g.saved for g in found)
    if hours <= 0:
        return None
    groups: dict[tuple[str, str], list[Gained]] = {}
    for one in found:
        groups.setdefault(one.who, []).append(one)
    without = [
        (saved - sum(g.saved for g in mine)) / left
        for mine in groups.values()
        if (left := hours - sum(g.gpu_hours for g in mine)) > 0
    ]
    reach, n = None, len(without)
    if n > 1:
        mean = sum(without) / n
        reach = t95(n - 1) * sqrt((n - 1) / n * sum((share - mean) ** 2 for share in without))
    return GainedShare(len(found), hours, saved, saved / hours, reach)


def gained(decided: Iterable[Why], got: Iterable[JobOutcome], now: float) -> list[Gained]:
    """One entry per job of which both step times are known; jobs without scores gain nothing and count."""
    plans = {w.ref: w for w in decided if w.decision.action is Action.START}
    found = []
    for outcome in got:
        real = outcome.step_time
        if real is None or real <= 0:
            continue
        n = sum(map(len, outcome.gpus))
        hours = n * max(0.0, (outcome.end or now) - outcome.start) / 3600.0
        plan, who = plans.get(outcome.ref), (outcome.user, outcome.app or "")
        if outcome.slurm_step_time is not None:
            gain = outcome.slurm_step_time / real - 1.0
            found.append(Gained(outcome.cls, n, gain, hours, hours * gain, who))
        elif plan is not None and plan.actuator == "shadow" and plan.decision.step_time:
            gain = real / plan.decision.step_time - 1.0
            found.append(Gained(outcome.cls, n, gain, hours, hours * (1.0 - plan.decision.step_time / real), who))
    return found


def gain_rows(found: Sequence[Gained]) -> list[dict[str, Value]]:
    classes = sorted({g.cls for g in found})
    rows = [_row(cls, [g for g in found if g.cls == cls]) for cls in classes]
    return [*rows, _row("all", found)] if len(classes) > 1 else rows


def _row(cls: str, found: Sequence[Gained]) -> dict[str, Value]:
    gains = [g.gain for g in found]
    return {
        "class": cls,
        "jobs": len(found),
        "gpus": sum(g.gpus for g in found),
        "better": sum(g > 0.005 for g in gains),
        "same": sum(abs(g) <= 0.005 for g in gains),
        "worse": sum(g < -0.005 for g in gains),
        "median_gain": median(gains),
        "mean_gain": sum(gains) / len(gains),
        "gpu_hours": sum(g.gpu_hours for g in found),
        "gpu_hours_saved": sum(g.saved for g in found),
    }
