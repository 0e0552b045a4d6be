"""What is known of two jobs on the same GPUs. In: what was told and seen. Out: a factor for each pair, and who is sure.

What nobody measured is estimated from what is known of both beside others: means of rows and columns, drawn towards the
middle where few are known, and then what few things make an application a good or a bad neighbour (the singular values
of what is left, less `SHRUNK`, again and again). Twice: once for speeds beside each other over the speed alone, of
those that fit together, and once for who fits at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, JobKind, Sharers, Sharing

SHRUNK = 0.5
ROUNDS = 60
LEAST = 3  # neighbours that must be known of each of the two
FITS = 0.6  # estimated to have room for both: 1 is sure
AGAIN = 20  # new observations after which all is estimated anew


class PairBook:
    def __init__(self, told: Sharing, models: Sequence[str]) -> None:
        self._told, self._models = told, tuple(models)
        self._seen: dict[Sharers, float] = dict(told.beside)
        self._guessed: dict[Sharers, float] = {}
        self._new = 0 if told.beside else -1  # observations since all was estimated; -1: nothing is known at all
        if told.beside:
            self._estimate()

    @property
    def empty(self) -> bool:
        return not self._seen

    def factor(self, one: JobKind, other: JobKind, model: str) -> float:
        pair = Sharers(one, other, model)
        known = self._seen.get(pair)
        return self._guessed.get(pair, math.inf) if known is None else known

    def sure(self, one: JobKind, other: JobKind, model: str) -> bool:
        """Somebody measured it, or saw it."""
        return Sharers(one, other, model) in self._seen and Sharers(other, one, model) in self._seen

    def saw(self, pair: Sharers, factor: float) -> None:
        if pair not in self._told.beside:  # what is told stands
            self._new += pair not in self._seen
            self._seen[pair] = max(factor, 1.0)
        if self._new >= AGAIN:
            self._estimate()

    def _estimate(self) -> None:
        self._new = 0
        self._guessed.clear()
        for gpus in {pair.one.gpus for pair in self._seen}:
            kinds = sorted({kind for pair in self._seen for kind in pair[:2] if kind.gpus == gpus})
            self._guessed |= self._of_size(kinds)

    def _of_size(self, kinds: Sequence[JobKind]) -> dict[Sharers, float]:
        place = {kind: i for i, kind in enumerate(kinds)}
        column = {model: j for j, model in enumerate(self._models)}
        table = np.full((len(kinds), len(kinds), len(column)), np.nan)
        for pair, factor in self._seen.items():
            if pair.one in place and pair.model in column:
                table[place[pair.one], place[pair.other], column[pair.model]] = 1.0 / factor
        known, flat = ~np.isnan(table), (len(kinds), -1)
        fit = known & (np.nan_to_num(table) > 0)
        speed = completed(np.where(fit, table, 0.0).reshape(flat), fit.reshape(flat)).reshape(table.shape)
        room = completed(fit.astype(float).reshape(flat), known.reshape(flat)).reshape(table.shape)
        enough = known.sum(axis=(1, 2)) >= LEAST
        able = ~known & enough[:, None, None] & enough[None, :, None] & (speed > 0)
        able &= (room >= FITS) & (room.transpose(1, 0, 2) >= FITS)
        found: Iterable[list[int]] = np.argwhere(able).tolist()
        return {Sharers(kinds[a], kinds[b], self._models[m]): 1.0 / float(speed[a, b, m]) for a, b, m in found}


def completed(table: FloatArray, known: BoolArray) -> FloatArray:
    """The same with what is not known estimated; between 0 and 1."""
    middle = float(table[known].mean()) if known.any() else 0.0
    apart = np.where(known, table - middle, 0.0)
    rows = apart.sum(axis=1) / (known.sum(axis=1) + 1)
    columns = np.where(known, apart - rows[:, None], 0.0).sum(axis=0) / (known.sum(axis=0) + 1)
    means: FloatArray = np.clip(middle + rows[:, None] + columns[None, :], 0.0, 1.0)
    full = np.where(known, table, means)
    for _ in range(ROUNDS):
        left, size, right = np.linalg.svd(full - means, full_matrices=False)
        near = means + (left * np.maximum(size - SHRUNK, 0.0)) @ right
        full = np.where(known, table, np.clip(near, 0.0, 1.0))
    return full
