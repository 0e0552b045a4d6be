"""What can be told apart. In: scores of one class with their confidence intervals. Out: bins, outliers.

Two GPUs whose difference is within what both measurements leave open share a bin: placement must not prefer one of
them. A GPU is an outlier when it is slow by more than a jobs' owner would put up with, and surely no part of the bulk.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.scores.alike import RESOLUTION

OUTLIER = 1.3
BULK_SIGMAS = 3.0


def told_apart(
    scores: FloatArray, low: FloatArray, high: FloatArray, resolution: float = RESOLUTION
) -> tuple[IntArray, FloatArray]:
    """Fewest bins along the scores such that no member surely differs from the first of its bin; and their means."""
    half = np.maximum(high - scores, scores - low) / 2
    order = np.argsort(scores, kind="stable")
    labels = np.zeros(scores.size, dtype=np.intp)
    first = -1
    number = -1
    for i in order.tolist():
        if first < 0 or scores[i] - scores[first] > max(
            resolution * scores[first], 2 * float(np.hypot(half[i], half[first]))
        ):
            first, number = i, number + 1
        labels[i] = number
    counts = np.bincount(labels, minlength=number + 1)
    return labels, np.bincount(labels, weights=scores, minlength=number + 1) / np.maximum(counts, 1)


def outlying(scores: FloatArray, low: FloatArray, threshold: float = OUTLIER) -> BoolArray:
    """Slower than `threshold`, and by its interval above three robust standard deviations of all scores."""
    if scores.size == 0:
        return np.zeros(0, dtype=np.bool_)
    middle = float(np.median(scores))
    spread = 1.4826 * float(np.median(np.abs(scores - middle)))
    slow: BoolArray = (scores > threshold) & (low > middle + BULK_SIGMAS * spread)
    return slow
