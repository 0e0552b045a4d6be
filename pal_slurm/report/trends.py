"""Nights one after the other. In: what the store adds up. Out: levels of kernels, GPUs that changed, as figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from math import sqrt

import numpy as np

from pal_slurm.report.figures import Drift, NightLevel, OwnScore, Trend
from pal_slurm.scores.fleet import newest_shift
from pal_slurm.store import Stay
from pal_slurm.store.fleet import LevelRow, MeanRow
from pal_slurm.store.nights import NightRepo

DAY_S = 86_400
WEEK = 7  # nights that "of late" means
LEAST_NIGHTS = 3  # on each side; fewer say little of their own scatter
LEAST_DRIFT = 0.02
SIGMAS = 5.0  # 40,000 scores are looked at, each from few nights


def day(night: int) -> str:
    return date.fromordinal(date(1970, 1, 1).toordinal() + night).isoformat()


def night_of(at: float) -> int:
    return datetime.fromtimestamp(at, UTC).toordinal() - date(1970, 1, 1).toordinal()


def trends(rows: Sequence[LevelRow]) -> tuple[Trend, ...]:
    """By class, kernel and model; levels are held against the median night of the window."""
    kernels: dict[tuple[str, str, str, str], list[LevelRow]] = {}
    for row in rows:
        kernels.setdefault((row.cls, row.app, row.scope, row.model), []).append(row)
    return tuple(_trend(kernel, mine) for kernel, mine in kernels.items())


def _trend(kernel: tuple[str, str, str, str], rows: Sequence[LevelRow]) -> Trend:
    seconds = np.array([row.seconds for row in rows])
    usual = float(np.median(seconds))
    shift = newest_shift(np.array([row.night for row in rows]), np.log(seconds))
    return Trend(
        *kernel,
        tuple(
            NightLevel(day(r.night), r.seconds / usual, r.gpus, r.runs, r.stalls, r.node_stalls)
            for r in sorted(rows, key=lambda row: row.night)
        ),
        shift.factor if shift else None,
    )


def drifts(before: Sequence[MeanRow], after: Sequence[MeanRow], sits: Mapping[str, Stay]) -> tuple[Drift, ...]:
    """GPUs that sit somewhere and surely changed, the largest change first."""
    earlier = {(row.uuid, row.cls): row for row in before if row.nights >= LEAST_NIGHTS}
    usual = _usual_scatter(earlier.values())
    found = []
    for late in after:
        early = earlier.get((late.uuid, late.cls))
        if early is None or late.uuid not in sits or not _surely(early, late, usual[late.cls]):
            continue
        stay = sits[late.uuid]
        found.append(Drift(stay.node, stay.slot, late.uuid, late.cls, early.mean, late.mean, early.nights, late.nights))
    found.sort(key=lambda d: (-abs(d.after / d.before - 1), d.node, d.slot, d.cls))
    return tuple(found)


def _usual_scatter(rows: Iterable[MeanRow]) -> dict[str, float]:
    """Of one GPU from night to night, by class: few nights say little of a single GPU's own."""
    by_class: dict[str, list[float]] = {}
    for row in rows:
        by_class.setdefault(row.cls, []).append(_scatter(row))
    return {cls: float(np.median(each)) for cls, each in by_class.items()}


def _scatter(row: MeanRow) -> float:
    return sqrt(max(0.0, row.square - row.mean**2) * row.nights / (row.nights - 1))


def _surely(early: MeanRow, late: MeanRow, usual: float) -> bool:
    if late.nights < LEAST_NIGHTS:
        return False
    change = abs(late.mean - early.mean)
    doubt = max(usual, _scatter(early)) * sqrt(1 / early.nights + 1 / late.nights)
    # One odd night moves the mean by less than the nights then scatter; a change that half of them saw moves it by more
    odd = sqrt(max(0.0, late.square - late.mean**2))
    return change > max(LEAST_DRIFT * early.mean, SIGMAS * doubt, odd)


def own_history(repo: NightRepo, uuid: str, cls: str) -> tuple[OwnScore, ...]:
    """A card's own score of each night, the mean where it ran several kernels of the class."""
    nights: dict[int, list[float]] = {}
    for row_cls, _, _, night, score, *_ in repo.history(uuid):
        if row_cls == cls and score is not None:
            nights.setdefault(night, []).append(score)
    return tuple(OwnScore(day(night), sum(scores) / len(scores)) for night, scores in sorted(nights.items()))
