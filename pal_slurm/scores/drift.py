"""Whether a GPU changed. In: its ratios night by night. Out: the change over the period, and whether it is surely one.

The last third of its nights is held against the first, by medians, so that one odd night moves neither. How far they
may differ by chance is told by how its ratio jumps from night to night, its largest jump left out: a GPU that changed
once jumps once. A GPU that looks calmer than most is taken to be as noisy as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.scores.alike import RESOLUTION

LEAST_NIGHTS = 6  # three at each end: the median of fewer is moved by one odd night
SURE_SIGMAS = 5.0  # of 40,000 GPUs and classes none passes by chance
_MEDIAN_ERROR = 1.2533  # of a median, in standard errors of a mean


class Drift(NamedTuple):
    change: FloatArray  # (R,) 0.05: 5 % slower at the end than at the beginning; NaN: fewer than two nights
    sure: BoolArray  # (R,)
    nights: IntArray  # (R,) that were measured
    before: FloatArray  # (R,) the median ratio of the first third of its nights
    after: FloatArray  # (R,) and of the last


def drift(ratio: FloatArray) -> Drift:
    """`ratio`: (R, N), NaN where a night was not measured."""
    nights = np.isfinite(ratio).sum(axis=1)
    if ratio.size == 0:
        nothing = np.full(nights.size, np.nan)
        return Drift(nothing, np.zeros(nights.size, dtype=np.bool_), nights, nothing, nothing)
    measured_first = np.argsort(np.isnan(ratio), axis=1, kind="stable")
    logs = np.log(np.take_along_axis(ratio, measured_first, axis=1).astype(np.float64))
    third = np.maximum(np.minimum(LEAST_NIGHTS // 2, nights // 2), nights // 3)
    place = np.arange(logs.shape[1])[None, :]
    before = _median(np.where(place < third[:, None], logs, np.nan), third)
    after = _median(np.where(place >= (nights - third)[:, None], logs, np.nan), third)
    change = np.where(nights >= 2, after - before, np.nan)
    noise = _noise(logs, nights)
    tried = nights >= LEAST_NIGHTS
    usual = float(np.median(noise[tried])) if tried.any() else 0.0
    error = _MEDIAN_ERROR * np.maximum(noise, usual) * np.sqrt(2.0 / np.maximum(third, 1))
    with np.errstate(invalid="ignore"):
        sure: BoolArray = tried & (np.abs(change) > np.maximum(SURE_SIGMAS * error, RESOLUTION))
    return Drift(np.expm1(change), sure, nights, np.exp(before), np.exp(after))


def _median(values: FloatArray, count: IntArray) -> FloatArray:
    """Medians of the `count` numbers in each row; the rest of it is NaN, which sorts last."""
    ordered = np.sort(values, axis=1)
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    rows = np.arange(count.size)
    middle: FloatArray = (ordered[rows, low] + ordered[rows, np.minimum(high, values.shape[1] - 1)]) / 2
    return middle


def _noise(logs: FloatArray, nights: IntArray) -> FloatArray:
    """Standard deviation of a night, from the jumps between neighbours without the largest one."""
    if logs.shape[1] < 2:
        return np.zeros(nights.size)
    jumps = np.nan_to_num(np.diff(logs, axis=1)) ** 2
    noise: FloatArray = np.sqrt((jumps.sum(axis=1) - jumps.max(axis=1)) / np.maximum(nights - 2, 1) / 2)
    return noise
