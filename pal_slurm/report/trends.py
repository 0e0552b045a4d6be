"""Nights one after the other. In: what the store adds up. Out: levels of kernels, GPUs that changed, as figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pal_slurm.report.figures import DriftedGpu, NightLevel, OwnScore, Trend
from pal_slurm.report.history import day
from pal_slurm.scores.drift import drift
from pal_slurm.scores.fleet import newest_shift
from pal_slurm.store import Stay
from pal_slurm.store.cards import CardRepo
from pal_slurm.store.fleet import LevelRow
from pal_slurm.store.history import History

DAY_S = 86_400


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


def drifts(history: History, sits: Mapping[str, Stay]) -> tuple[DriftedGpu, ...]:
    """GPUs that sit somewhere and surely changed, the largest change first; `palctl scores --since` judges alike."""
    uuids = {row: uuid for uuid, row in history.rows.items()}
    found = []
    for cls, ratio in zip(history.classes, history.ratio, strict=True):
        moved = drift(ratio)
        for row in np.flatnonzero(moved.sure).tolist():
            stay = sits.get(uuids[row])
            if stay is not None:
                ends = float(moved.before[row]), float(moved.after[row])
                found.append(DriftedGpu(stay.node, stay.slot, stay.uuid, cls, *ends, int(moved.nights[row])))
    found.sort(key=lambda d: (-abs(d.after / d.before - 1), d.node, d.slot, d.cls))
    return tuple(found)


def own_history(repo: CardRepo, uuid: str, cls: str) -> tuple[OwnScore, ...]:
    """A card's own score of each night, the mean where it ran several kernels of the class."""
    nights: dict[int, list[float]] = {}
    for row in repo.nights(uuid):
        if row.cls == cls and row.score is not None:
            nights.setdefault(row.night, []).append(row.score)
    return tuple(OwnScore(day(night), sum(scores) / len(scores)) for night, scores in sorted(nights.items()))
