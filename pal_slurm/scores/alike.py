"""Bins for placement: GPUs that nobody can tell apart count as equal. In: scores of one class. Out: labels, means.

The published bins (bins.py) cut where the data has gaps, so they may call a difference of half a percent two bins, and
ten percent one. Placement wants the opposite: a difference that a job would never notice must not decide (then the good
GPU is left to a class that does notice), one that it would notice must.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.model import FloatArray, IntArray

RESOLUTION = 0.01  # repeated runs of one GPU differ by about this much (within-GPU CV on Longhorn: 0.2 to 3.6 %)


def alike(scores: FloatArray, resolution: float = RESOLUTION) -> tuple[IntArray, FloatArray]:
    """Fewest bins in which no two scores differ by more than `resolution`; 0 is the fastest."""
    values, back = np.unique(scores, return_inverse=True)
    bin_of = np.zeros(values.size, dtype=np.intp)
    least, number = 0.0, -1
    for i, value in enumerate(values.tolist()):
        if number < 0 or value > least * (1 + resolution):
            least, number = value, number + 1
        bin_of[i] = number
    labels = bin_of[back].reshape(scores.shape)
    counts = np.bincount(labels.ravel(), minlength=number + 1)
    means = np.bincount(labels.ravel(), weights=scores.ravel(), minlength=number + 1) / np.maximum(counts, 1)
    return labels, means
