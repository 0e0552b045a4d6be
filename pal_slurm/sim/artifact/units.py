"""What may run in a round of Gavel's: jobs alone, and pairs of them. In: who comes and goes. Out: tables by two rows.

A job has a row; a unit is two rows, and a job alone is its row twice. Every table is symmetric.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.model import App, BoolArray, FloatArray, IntArray, JobKind, Sharing

SHARE, TIME, DEFICIT = range(3)


class Units:
    def __init__(self, models: tuple[str, ...], sharing: Sharing, rows: int = 64) -> None:
        self._models, self._sharing = models, sharing
        self.book: FloatArray = np.zeros((3, rows, rows, len(models)))
        self.runs: BoolArray = np.zeros((rows, rows, len(models)), dtype=np.bool_)  # there: at any speed
        self.size: IntArray = np.zeros(rows, dtype=np.int64)  # GPUs; 0: nobody
        self.kind: IntArray = np.zeros(rows, dtype=np.int64)
        self.owed: BoolArray = np.zeros(rows, dtype=np.bool_)  # it was here when shares were made
        self._may: BoolArray = np.zeros(rows, dtype=np.bool_)  # it said that it may share
        self._kinds: dict[tuple[JobKind, bool], int] = {}
        self._apps: list[App] = []
        self.rates: FloatArray = np.zeros((0, 0, len(models)))  # steps/s of a kind beside a kind
        self.alone: FloatArray = np.zeros((0, len(models)))

    def came(self, app: App, gpus: int, *, shares: bool, time_s: float) -> int:
        """`time_s`: what counts as had from the first."""
        if self.size.all():
            self._grow()
        row = int(self.size.argmin())
        kind = self._kind(app, gpus, shares=shares)
        self.size[row], self.kind[row], self.owed[row], self._may[row] = gpus, kind, False, shares
        self.book[:, row] = self.book[:, :, row] = 0.0
        self.book[TIME, row] = self.book[TIME, :, row] = time_s
        with_whom = (self.size == gpus) & self._may if shares else np.zeros(len(self.size), dtype=np.bool_)
        other = self.kind
        both = (self.rates[kind, other] > 0) & (self.rates[other, kind] > 0) & with_whom[:, None]
        self.runs[row], self.runs[:, row] = both, both
        self.runs[row, row] = self.alone[kind] > 0
        return row

    def left(self, row: int) -> None:
        self.size[row] = 0
        self.runs[row] = self.runs[:, row] = False

    def here(self) -> IntArray:
        return np.flatnonzero(self.size)

    def _grow(self) -> None:
        n = len(self.size)
        self.book = np.pad(self.book, ((0, 0), (0, n), (0, n), (0, 0)))
        self.runs = np.pad(self.runs, ((0, n), (0, n), (0, 0)))
        for name in ("size", "kind", "owed", "_may"):
            setattr(self, name, np.pad(getattr(self, name), (0, n)))

    def _kind(self, app: App, gpus: int, *, shares: bool) -> int:
        """Its number; the rates of one that is new beside all that were met before, and theirs beside it."""
        kind = JobKind(app.name, gpus)
        known = self._kinds.get((kind, shares))
        if known is not None:
            return known
        n = self._kinds[kind, shares] = len(self._apps)
        self._apps.append(app)
        self.alone = np.pad(self.alone, ((0, 1), (0, 0)))
        self.rates = np.pad(self.rates, ((0, 1), (0, 1), (0, 0)))
        for t, model in enumerate(self._models):
            self.alone[n, t] = rate(app, model)
            for (other, too), k in self._kinds.items():
                if shares and too and other.gpus == gpus:
                    self.rates[n, k, t] = rate(app, model) / self._sharing.factor(kind, other, model)
                    self.rates[k, n, t] = rate(self._apps[k], model) / self._sharing.factor(other, kind, model)
        return n


def rate(app: App, model: str) -> float:
    """Steps a second alone; 0: it can't run there."""
    return 1.0 / app.base[model] if app.base.get(model) else 0.0
