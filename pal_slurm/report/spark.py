"""A line of numbers as a line of text. In: rows of numbers with gaps. Out: one short picture per row.

Blocks where the terminal has them, plain ASCII elsewhere. Each row has its own middle, and its height stands for
LEAST_SPAN at least: what is flat in one row is as flat in the next.
"""

from __future__ import annotations

import warnings

import numpy as np

from pal_slurm.model import FloatArray

LEAST_SPAN = 0.1
WIDTH = 30
_BLOCKS, _BLOCK_GAP = "▁▂▃▄▅▆▇█", "·"
_PLAIN, _PLAIN_GAP = ".:-=+*#@", "_"


def sparklines(values: FloatArray, blocks: bool, width: int = WIDTH) -> list[str]:
    """`values`: (R, N); NaN: a gap. More than `width` of them share columns, as means."""
    if values.shape[1] == 0:
        return [""] * values.shape[0]
    columns = _columns(values.astype(np.float64), width)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a row of gaps has no middle
        low, high = np.nanmin(columns, axis=1), np.nanmax(columns, axis=1)
    span = np.maximum(high - low, LEAST_SPAN)
    bottom = (high + low - span) / 2
    steps, gap = (_BLOCKS, _BLOCK_GAP) if blocks else (_PLAIN, _PLAIN_GAP)
    with np.errstate(invalid="ignore"):
        level = np.floor((columns - bottom[:, None]) / span[:, None] * len(steps))
    level = np.where(np.isnan(level), len(steps), np.clip(level, 0, len(steps) - 1)).astype(np.intp)
    signs = np.array([*steps, gap])
    return ["".join(row) for row in signs[level].tolist()]


def _columns(values: FloatArray, width: int) -> FloatArray:
    """Means of neighbours, so that `width` columns are left."""
    if values.shape[1] <= width:
        return values
    edges = np.linspace(0, values.shape[1], width + 1).astype(np.intp)[:-1]
    measured = np.add.reduceat(np.isfinite(values).astype(np.float64), edges, axis=1)
    sums = np.add.reduceat(np.nan_to_num(values), edges, axis=1)
    means: FloatArray = sums / np.where(measured > 0, measured, np.nan)
    return means
