"""Run times to PM-scores. In: seconds per run of each GPU. Out: its median over the median of its peers. Pure.

Peers are the GPUs of one model that ran the same thing in the same night. Medians on both levels: a run that met a
transient stall moves neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

# The median of n normal draws has a standard error of sqrt(pi/2) sigma / sqrt(n); 95 % is 1.96 of them.
_MEDIAN_95 = 1.96 * 1.2533


@dataclass(frozen=True, slots=True)
class Ratio:
    score: float
    n_runs: int
    ci_low: float | None  # None: too few runs to tell
    ci_high: float | None


def pm_scores(seconds: Mapping[str, Sequence[float]]) -> dict[str, Ratio]:
    """GPU -> score, among peers. Every GPU must have at least one run."""
    medians = {gpu: float(np.median(runs)) for gpu, runs in seconds.items()}
    if not medians:
        return {}
    middle = float(np.median(list(medians.values())))
    return {gpu: _ratio(medians[gpu] / middle, np.asarray(runs) / middle) for gpu, runs in seconds.items()}


def _ratio(score: float, relative: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Ratio:
    n = len(relative)
    if n < 3:
        return Ratio(score, n, None, None)
    half = _MEDIAN_95 * float(np.std(relative, ddof=1)) / sqrt(n)
    return Ratio(score, n, score - half, score + half)
