"""What a fleet did night by night. In: the nights since some night. Out: ratios, runs and stalls as arrays.

Kernels of one class are taken together as scores take them: the mean of their logarithms. A GPU's row goes with its
UUID, wherever the card sat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, CursorResult, case, func, select

from pal_slurm.model import FloatArray, IntArray
from pal_slurm.store.engine import Store
from pal_slurm.store.tables import gpus, nights

_AT_A_TIME = 28  # nights: a year of 10,000 GPUs must not be in memory twice
_FETCH = 10_000  # rows
_ROW = [("gpu", "i8"), ("cls", "i8"), ("night", "i8"), ("ratio", "f8"), ("runs", "i8"), ("stalls", "i8")]


@dataclass(frozen=True, eq=False)
class History:
    """Class c, row r, night `first` + n. `rows`: whose row it is; of a store it is the card with that UUID."""

    classes: tuple[str, ...]
    first: int  # days since 1970-01-01 UTC
    rows: Mapping[str, int]
    ratio: FloatArray  # (C, R, N) to the median GPU of that night; NaN: not measured
    runs: IntArray  # (C, R, N)
    stalls: IntArray  # (C, R, N)

    @property
    def n_nights(self) -> int:
        return int(self.ratio.shape[2])


class HistoryRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def fleet(self, classes: Sequence[str], first: int) -> History:
        """Every card from the night `first` on, or from the oldest that is stored, to the newest."""
        with self._store.reading() as db:
            # one by one: SQLite answers each from the end of its index, and both at once by reading all of it
            oldest = db.execute(select(func.min(nights.c.night))).scalar_one()
            newest = db.execute(select(func.max(nights.c.night))).scalar_one()
            cards = db.execute(select(gpus.c.id, gpus.c.uuid).order_by(gpus.c.id)).all()
            begin = first if oldest is None else max(first, oldest)
            columns = 0 if newest is None else max(0, newest - begin + 1)
            shape = (len(classes), len(cards), columns)
            history = History(
                tuple(classes), begin, {uuid: row for row, (_, uuid) in enumerate(cards)},
                np.full(shape, np.nan, dtype=np.float32), np.zeros(shape, dtype=np.int32),
                np.zeros(shape, dtype=np.int32),
            )  # fmt: skip
            ids = np.array([number for number, _ in cards], dtype=np.int64)
            for night in range(begin, begin + columns, _AT_A_TIME):
                _fill(db, history, ids, night, min(night + _AT_A_TIME, begin + columns))
        return history


def _fill(db: Connection, history: History, ids: IntArray, begin: int, end: int) -> None:
    """The nights from `begin` to before `end`."""
    found = _rows(db, history.classes, begin, end)
    shape = (len(history.classes), ids.size, end - begin)
    place = np.ravel_multi_index((found["cls"], np.searchsorted(ids, found["gpu"]), found["night"] - begin), shape)

    def total(values: np.ndarray[Any, Any]) -> NDArray[np.float64]:
        return np.bincount(place, weights=values, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)

    kernels = total(np.ones(place.size))
    columns = slice(begin - history.first, end - history.first)
    with np.errstate(invalid="ignore"):
        history.ratio[:, :, columns] = np.exp(total(np.log(found["ratio"])) / np.where(kernels > 0, kernels, np.nan))
    history.runs[:, :, columns] = total(found["runs"]).astype(np.int32)
    history.stalls[:, :, columns] = total(found["stalls"]).astype(np.int32)


def _rows(db: Connection, classes: Sequence[str], begin: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    c = nights.c
    number = case(*((c.cls == cls, i) for i, cls in enumerate(classes)))
    query = select(c.gpu_id, number, c.night, c.score, c.runs, c.stalls).where(
        c.night >= begin, c.night < end, c.cls.in_(classes), c.score > 0.0
    )
    return np.fromiter(_as_they_come(db.execute(query)), dtype=_ROW)


def _as_they_come(result: CursorResult[Any]) -> Iterator[tuple[Any, ...]]:
    """The driver's own tuples: a million rows as SQLAlchemy's take twice as long."""
    assert result.cursor is not None
    while some := result.cursor.fetchmany(_FETCH):
        yield from some
