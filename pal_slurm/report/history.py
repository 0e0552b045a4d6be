"""History as columns beside other rows. In: a History of cards. Out: per row and class a picture, drift, nights.

A row may stand for one card or for several: then its history is their mean, night by night.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.report.spark import WIDTH, sparklines
from pal_slurm.report.text import Value
from pal_slurm.scores.drift import Drift, drift
from pal_slurm.store.history import History

EPOCH = date(1970, 1, 1).toordinal()
PARTS = ("trend", "drift", "sure", "nights", "stalls", "history")
SHOWN = ("trend", "drift", "sure")  # in a table; `history` is for --json


@dataclass(frozen=True, slots=True)
class Look:
    """How pictures are drawn."""

    blocks: bool
    width: int = WIDTH


def history_fields(classes: Iterable[str], parts: Sequence[str] = PARTS) -> list[str]:
    return [f"{cls}.{part}" for cls in classes for part in parts]


class HistoryColumns:
    """What is told of a history. `want_nights`: each night too, which is much."""

    def __init__(self, history: History, look: Look, want_nights: bool) -> None:
        self._history = history
        self._want_nights = want_nights
        self._days = [day(history.first + n) for n in range(history.n_nights)]
        self._class = {cls: c for c, cls in enumerate(history.classes)}
        self._drift = [drift(ratio) for ratio in history.ratio]
        self._trend = [sparklines(ratio, look.blocks, look.width) for ratio in history.ratio]

    def of(self, who: str, cls: str) -> dict[str, Value]:
        """By the names in PARTS; of a row without nights there is no picture."""
        row, c = self._history.rows.get(who), self._class.get(cls)
        if row is None or c is None:
            return dict.fromkeys(PARTS)
        moved: Drift = self._drift[c]
        nights, change = int(moved.nights[row]), float(moved.change[row])
        return {
            "trend": self._trend[c][row] if nights else None,
            "drift": None if np.isnan(change) else round(change, 4),
            "sure": bool(moved.sure[row]) if nights else None,
            "nights": nights,
            "stalls": int(self._history.stalls[c, row].sum()),
            "history": night_lists(self._history, self._days, c, row) if self._want_nights else None,
        }


def add_history(rows: Iterable[dict[str, Value]], key: str, classes: Sequence[str], told: HistoryColumns) -> None:
    """Columns `A.trend`, `A.drift` ... for every class; `key`: the column that says whose row it is."""
    for row in rows:
        for cls in classes:
            row.update({f"{cls}.{part}": value for part, value in told.of(str(row[key]), cls).items()})


def night_lists(history: History, days: Sequence[str], c: int, row: int) -> list[Value]:
    """[night, ratio, runs, stalls] of each night that was measured; `days`: the dates of all of them."""
    columns = (matrix[c, row].tolist() for matrix in (history.ratio, history.runs, history.stalls))
    return [
        [night, round(ratio, 4), runs, stalls]
        for night, ratio, runs, stalls in zip(days, *columns, strict=True)
        if ratio == ratio  # no NaN
    ]


def together(history: History, group_of: Mapping[str, str]) -> History:
    """One row per group instead of one per card: the mean of its cards' logarithms, the sum of runs and stalls."""
    members = [(row, group_of[uuid]) for uuid, row in history.rows.items() if uuid in group_of]
    groups = {name: i for i, name in enumerate(dict.fromkeys(name for _, name in members))}
    members.sort(key=lambda member: groups[member[1]])
    rows = np.array([row for row, _ in members], dtype=np.intp)
    starts = np.searchsorted([groups[name] for _, name in members], np.arange(len(groups)))

    def total(values: FloatArray) -> FloatArray:
        """(C, R, N) by group."""
        sums: FloatArray = np.add.reduceat(values[:, rows], starts, axis=1)
        return sums

    measured = total(np.isfinite(history.ratio).astype(np.float64))
    logs = total(np.nan_to_num(np.log(history.ratio)))
    ratio: FloatArray = np.exp(logs / np.where(measured > 0, measured, np.nan))
    runs, stalls = (total(values.astype(np.float64)).astype(np.int64) for values in (history.runs, history.stalls))
    return History(history.classes, history.first, groups, ratio, runs, stalls)


def day(night: int) -> str:
    """2026-11-18"""
    return date.fromordinal(EPOCH + night).isoformat()


def night_of(at: float) -> int:
    return datetime.fromtimestamp(at, UTC).toordinal() - EPOCH
