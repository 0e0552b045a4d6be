"""What two jobs on the same GPUs cost each other where nobody measured it. In: what is known of pairs. Out: factors.

Estimated from what is known of both beside others: means of rows and columns, drawn towards the middle where few are
known, and then what few things make an application a good or a bad neighbour (the singular values of what is left, less
`SHRUNK`, again and again). Twice: once for speeds beside each other over the speed alone, of those that fit together,
and once for who fits at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pal_slurm.model.cluster import BoolArray, FloatArray
from pal_slurm.model.sharing import JobKind, Sharers

SHRUNK = 0.5
ROUNDS = 60
LEAST = 3  # neighbours that must be known of each of the two
FITS = 0.6  # estimated to have room for both: 1 is sure


def likely(seen: Mapping[Sharers, float], models: Sequence[str]) -> dict[Sharers, float]:
    """Factors of pairs that are not among the known ones; of those of which too little is known, nothing."""
    found: dict[Sharers, float] = {}
    for gpus in {pair.one.gpus for pair in seen}:
        kinds = sorted({kind for pair in seen for kind in pair[:2] if kind.gpus == gpus})
        found |= _of_size(seen, kinds, models)
    return found


def _of_size(seen: Mapping[Sharers, float], kinds: Sequence[JobKind], models: Sequence[str]) -> dict[Sharers, float]:
    place = {kind: i for i, kind in enumerate(kinds)}
    column = {model: j for j, model in enumerate(models)}
    table = np.full((len(kinds), len(kinds), len(column)), np.nan)
    for pair, factor in seen.items():
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
    return {Sharers(kinds[a], kinds[b], models[m]): 1.0 / float(speed[a, b, m]) for a, b, m in found}


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
