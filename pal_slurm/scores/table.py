"""Scores of a whole cluster to a ScoreTable. In: one number per class, node and slot. Out: the same with bins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, IntArray, ScoreTable, bins_with_neutral
from pal_slurm.scores.bins import bin_scores

Binning = Callable[[FloatArray], tuple[IntArray, FloatArray]]


def binned(
    classes: tuple[str, ...],
    score: FloatArray,
    known: BoolArray | None = None,
    binning: Binning = bin_scores,
) -> ScoreTable:
    """Bin each class by itself; devices that are not known stay at 1.0."""
    known = np.ones(score.shape, dtype=np.bool_) if known is None else known
    values = np.where(known, score, 1.0)
    bins = np.zeros(score.shape, dtype=np.int16)
    for c in range(len(classes)):
        if known[c].any():
            bins[c] = bins_with_neutral(*binning(values[c][known[c]]), known[c])
    return ScoreTable(classes, values, bins, known.copy())
