"""What each job is owed and has not had. In: shares, who runs where, the time. Out: seconds of each pool, by job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pal_slurm.model import FloatArray

MOST = 4.0  # times the turn: a longer debt is not remembered, nor a longer favour
SHARE, OWED, ENTITLED, RECEIVED = range(4)


class Dues:
    """A row for each job: its share, its debt, and since it came what it was entitled to and what it had."""

    def __init__(self, pools: int, turn_s: float) -> None:
        self._pools, self._most_s = pools, MOST * turn_s
        self._book = np.zeros((4, 64, pools))
        self._row: dict[int, int] = {}
        self._free: list[int] = list(range(64))
        self._told = 0.0

    def came(self, job: int) -> None:
        if not self._free:
            rows = self._book.shape[1]
            self._book = np.concatenate((self._book, np.zeros_like(self._book)), axis=1)
            self._free = list(range(rows, 2 * rows))
        self._row[job] = row = self._free.pop()
        self._book[:, row] = 0.0

    def left(self, job: int) -> None:
        row = self._row.pop(job)
        self._book[:, row] = 0.0
        self._free.append(row)

    def shared(self, jobs: Sequence[int], shares: FloatArray) -> None:
        self._book[SHARE, self._rows(jobs)] = shares

    def until(self, now: float, ran: Mapping[int, int]) -> None:
        """Time went by; `ran`: the pool of each that ran meanwhile."""
        gone, self._told = now - self._told, now
        if gone <= 0:
            return
        book, rows, pools = self._book, self._rows(list(ran)), list(ran.values())
        for which in (OWED, ENTITLED):
            book[which] += book[SHARE] * gone
        book[OWED, rows, pools] -= gone
        book[RECEIVED, rows, pools] += gone
        np.clip(book[OWED], -self._most_s, self._most_s, out=book[OWED])

    def owed(self, jobs: Sequence[int]) -> FloatArray:
        """(jobs, pools) seconds; below 0: it had more than its due."""
        return np.asarray(self._book[OWED, self._rows(jobs)])

    def entitled(self, job: int) -> tuple[FloatArray, FloatArray]:
        """(pools,) seconds since it came: its due, and what it had."""
        row = self._row[job]
        return self._book[ENTITLED, row].copy(), self._book[RECEIVED, row].copy()

    def _rows(self, jobs: Sequence[int]) -> list[int]:
        return [self._row[job] for job in jobs]
