"""Scores to bins: GPUs that count as equal. In: the scores of one class. Out: a bin per GPU, and the mean of each bin.

Published rule (PAL, SC'24): outliers lie more than three standard deviations above the mean; the others are clustered
with the K in 2..10 of the best silhouette; then all scores are clustered with that K plus one bin per outlier.
In one dimension k-means needs no random starts: a dynamic program over the sorted values finds the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model import FloatArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

MOST_BINS = 10  # the published range of K ends here
OUTLIER_SIGMAS = 3.0


def bin_scores(scores: FloatArray | Sequence[float], regular: int | None = None) -> tuple[Ints, Floats]:
    """Bin number per score (0 the fastest) and mean score per bin.

    `regular`: bins for the scores that are no outliers; None lets the silhouette choose. Equal scores share a bin.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("scores must be one row of finite numbers")
    if values.size == 0:
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    outlying = outliers(values)
    if regular is None:
        regular = best_k(values[~outlying])
    labels = kmeans_1d(values, regular + int(outlying.sum()))
    counts = np.bincount(labels)
    return labels, np.bincount(labels, weights=values) / counts


def outliers(scores: Floats) -> NDArray[np.bool_]:
    """Which scores lie more than three (sample) standard deviations above the mean: slow ones only."""
    if scores.size < 2:
        return np.zeros(scores.size, dtype=np.bool_)
    slow: NDArray[np.bool_] = scores > scores.mean() + OUTLIER_SIGMAS * scores.std(ddof=1)
    return slow


def best_k(values: Floats) -> int:
    """The K in 2..10 with the best mean silhouette; 1 where there is nothing to tell apart."""
    distinct = np.unique(values)
    if distinct.size < 3:
        return int(distinct.size) or 1
    most = min(MOST_BINS, int(distinct.size) - 1)
    marks = [silhouette(values, labels) for labels in _all_kmeans(values, most)[1:]]
    return 2 + int(np.argmax(marks))


def kmeans_1d(values: Floats, k: int) -> Ints:
    """The optimal k-means labels, 0 for the lowest values; fewer clusters where there are fewer distinct values."""
    if k < 1:
        raise ValueError(f"k-means needs at least one cluster, not {k}")
    return _all_kmeans(values, k)[-1]


def silhouette(values: Floats, labels: Ints) -> float:
    """Mean silhouette of a partition of a line into intervals; a point alone in its cluster counts 0.

    The nearest other cluster by mean distance is always a neighbour, so prefix sums do.
    """
    order = np.argsort(values, kind="stable")
    x, lab = values[order], labels[order]
    size = np.bincount(lab)
    mean = np.bincount(lab, weights=x) / size
    first = np.concatenate(([0], np.cumsum(size)))[lab]  # where the point's cluster begins
    sums = np.concatenate(([0.0], np.cumsum(x)))
    at = np.arange(x.size)
    left = x * (at - first) - (sums[at] - sums[first])
    end = first + size[lab]
    right = (sums[end] - sums[at]) - x * (end - at)
    inside = (left + right) / np.maximum(size[lab] - 1, 1)
    below = np.where(lab > 0, x - mean[np.maximum(lab - 1, 0)], np.inf)
    above = np.where(lab < size.size - 1, mean[np.minimum(lab + 1, size.size - 1)] - x, np.inf)
    outside = np.minimum(below, above)
    widest = np.maximum(inside, outside)
    mark = np.where((size[lab] > 1) & (widest > 0), (outside - inside) / np.where(widest > 0, widest, 1.0), 0.0)
    return float(mark.mean())


def _all_kmeans(values: Floats, most: int) -> list[Ints]:
    """Optimal labels for 1, 2 ... `most` clusters, or as many as there are distinct values, in one program."""
    distinct, place, weight = np.unique(values, return_inverse=True, return_counts=True)
    shifted = distinct - np.average(distinct, weights=weight)  # keeps the sums of squares from cancelling
    cost = _IntervalCost(shifted, weight)
    n = distinct.size
    ends = np.arange(1, n + 1)
    best = cost(np.zeros(n, dtype=np.intp), ends)
    cuts: list[Ints] = []  # cuts[j][i]: where the last of j + 2 clusters of the first i + 1 values begins
    found = [np.zeros(values.size, dtype=np.intp)]
    for k in range(2, min(most, n) + 1):
        best, cut = _one_more_cluster(best, cost, k)
        cuts.append(cut)
        starts = np.empty(k, dtype=np.intp)
        end = n
        for j in range(k - 1, 0, -1):
            starts[j] = end = cuts[j - 1][end - 1]
        starts[0] = 0
        found.append((np.searchsorted(starts, np.arange(n), side="right") - 1)[place])
    return found


class _IntervalCost:
    """Squared deviation within [start, end) of the sorted distinct values, for arrays of intervals."""

    def __init__(self, values: Floats, weight: Ints) -> None:
        self._w = np.concatenate(([0.0], np.cumsum(weight)))
        self._s = np.concatenate(([0.0], np.cumsum(weight * values)))
        self._q = np.concatenate(([0.0], np.cumsum(weight * values * values)))

    def __call__(self, start: Ints, end: Ints) -> Floats:
        w = self._w[end] - self._w[start]
        s = self._s[end] - self._s[start]
        cost: Floats = np.maximum(self._q[end] - self._q[start] - s * s / w, 0.0)
        return cost


def _one_more_cluster(before: Floats, cost: _IntervalCost, k: int) -> tuple[Floats, Ints]:
    """best[i] = min over c of before[c - 1] + cost(c, i + 1), where c, the start of the last cluster, grows with i.

    Divide and conquer on that growth, one level of all halves at a time, so that numpy does the work.
    """
    n = before.size
    best = np.full(n, np.inf)
    cut = np.zeros(n, dtype=np.intp)
    # open ranges of i, each with the range of c that is left for it
    low, high = np.array([k - 1]), np.array([n - 1])
    c_low, c_high = np.array([k - 1]), np.array([n - 1])
    while low.size:
        mid = (low + high) // 2
        last = np.minimum(mid, c_high)
        counts = last - c_low + 1
        offsets = np.concatenate(([0], np.cumsum(counts)[:-1]))
        which = np.repeat(np.arange(mid.size), counts)
        c = np.arange(which.size) - offsets[which] + c_low[which]
        total = before[c - 1] + cost(c, mid[which] + 1)
        least = np.minimum.reduceat(total, offsets)
        hits = np.flatnonzero(total == least[which])
        chosen = c[hits[np.searchsorted(which[hits], np.arange(mid.size))]]  # the first where several are least
        best[mid], cut[mid] = least, chosen
        lefts, rights = low < mid, mid < high
        low, high, c_low, c_high = (
            np.concatenate((low[lefts], mid[rights] + 1)),
            np.concatenate((mid[lefts] - 1, high[rights])),
            np.concatenate((c_low[lefts], chosen[rights])),
            np.concatenate((chosen[lefts], c_high[rights])),
        )
    return best, cut
