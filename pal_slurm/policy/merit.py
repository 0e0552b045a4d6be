"""How good each GPU is, in whole numbers. In: scores of one class. Out: ranks to compare, values to compute with.

`rank` orders GPUs by the value of their bin: two GPUs of one bin are a tie. `worth` says what a GPU is worth to the
jobs that wait: taking it costs each class the gap between its bin and that class's worst bin. Among ties the GPUs of
least worth are taken, so scarce good GPUs stay for the classes that feel the difference, and a class without any
spread never counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pal_slurm.model import BoolArray, Cluster, FloatArray, IntArray, ScoreTable

# Worth is told in so many steps, the most precious GPU having them all: a finer difference is left to packing, because
# it is not worth a node broken into. A job's GPUs add up to at most 63 * 7, far below 2**18 (tables.py).
WORTH_LEVELS = 7
OUTLIER = 1.5  # so much slower than the best is as bad as it gets: one broken GPU must not hide other differences


@dataclass(frozen=True, eq=False)
class Merit:
    rank: IntArray  # (N, S)
    levels: tuple[float, ...]  # rank -> the score that its bin counts as
    worth: IntArray  # (N, S)
    informed: bool  # something is known that tells GPUs apart

    @cached_property
    def rank_lists(self) -> list[list[int]]:
        """The same as plain numbers, for looking at one node."""
        lists: list[list[int]] = self.rank.tolist()
        return lists

    @cached_property
    def worth_lists(self) -> list[list[int]]:
        lists: list[list[int]] = self.worth.tolist()
        return lists


def flat_merit(cluster: Cluster) -> Merit:
    """All GPUs alike: for placements that don't look at scores."""
    zeros = np.zeros(cluster.gpu_exists.shape, dtype=np.int32)
    return Merit(zeros, (1.0,), zeros, False)


def class_merit(scores: ScoreTable, cls: int, worth: IntArray) -> Merit:
    values = _values(scores, cls)
    levels, inverse = np.unique(values, return_inverse=True)
    rank = inverse.reshape(values.shape).astype(np.int32)
    return Merit(rank, tuple(levels.tolist()), worth, bool(scores.known[cls].any()))


def worth_to_others(scores: ScoreTable, exists: BoolArray, waiting: tuple[int, ...]) -> IntArray:
    """(N, S) 0..WORTH_LEVELS: summed over the classes that wait, how much a GPU beats the class's worst bin."""
    total = np.zeros(exists.shape)
    for cls in waiting:
        values = _values(scores, cls)
        worst = min(values.max(initial=0.0, where=exists), OUTLIER * values.min(initial=np.inf, where=exists))
        total += np.maximum(worst - values, 0.0)
    top = float(total.max(initial=0.0, where=exists))
    if top <= 0.0:
        return np.zeros(exists.shape, dtype=np.int32)
    scaled: IntArray = np.rint(np.clip(total / top, 0.0, 1.0) * WORTH_LEVELS).astype(np.int32)
    return scaled


def _values(scores: ScoreTable, cls: int) -> FloatArray:
    values: FloatArray = scores.as_bins[cls]
    return values
