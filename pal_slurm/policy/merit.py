"""How good each GPU is, in whole numbers. In: scores of one class. Out: ranks to compare, values to compute with.

`rank` orders GPUs by the value of their bin: two GPUs of one bin are a tie. `worth` says what a GPU is worth to the
jobs that wait: taking it costs each class the gap between its bin and that class's worst bin. Among ties the GPUs of
least worth are taken, so scarce good GPUs stay for the classes that feel the difference, and a class without any
spread never counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from pal_slurm.model import BoolArray, Cluster, IntArray, Ranked, ScoreTable

# Worth is told in so many steps, the most precious GPU having them all: a finer difference is left to packing, because
# it is not worth a node broken into. A job's GPUs add up to at most 63 * 7, far below 2**18 (tables.py).
WORTH_LEVELS = 7
OUTLIER = 1.5  # so much slower than the best is as bad as it gets: one broken GPU must not hide other differences


@dataclass(frozen=True, eq=False)
class Worth:
    """What each GPU is worth to those who wait."""

    each: IntArray  # (N, S)

    def __post_init__(self) -> None:
        self.each.setflags(write=False)  # many plans go by it

    @cached_property
    def lists(self) -> list[list[int]]:
        """The same as plain numbers, for looking at one node."""
        lists: list[list[int]] = self.each.tolist()
        return lists


@dataclass(frozen=True, eq=False)
class Merit:
    ranked: Ranked
    worths: Worth
    informed: bool  # something is known that tells GPUs apart

    @cached_property
    def rank(self) -> IntArray:
        return self.ranked.rank

    @cached_property
    def levels(self) -> tuple[float, ...]:
        return self.ranked.levels

    @cached_property
    def worth(self) -> IntArray:
        return self.worths.each

    @cached_property
    def rank_lists(self) -> list[list[int]]:
        return self.ranked.lists

    @cached_property
    def worth_lists(self) -> list[list[int]]:
        return self.worths.lists


def flat_merit(cluster: Cluster) -> Merit:
    """All GPUs alike: for placements that don't look at scores."""
    zeros = np.zeros(cluster.gpu_exists.shape, dtype=np.int32)
    return Merit(Ranked(zeros, (1.0,)), Worth(zeros), False)


def class_merit(scores: ScoreTable, cls: int, worth: Worth) -> Merit:
    return Merit(scores.ranked(cls), worth, bool(scores.known[cls].any()))


def worth_to_others(scores: ScoreTable, exists: BoolArray, waiting: tuple[int, ...]) -> Worth:
    """(N, S) 0..WORTH_LEVELS: summed over the classes that wait, how much a GPU beats the class's worst bin."""
    return _worth(scores, exists.tobytes(), waiting)


@lru_cache(maxsize=2)  # from plan to plan it is mostly the same
def _worth(scores: ScoreTable, existing: bytes, waiting: tuple[int, ...]) -> Worth:
    exists = np.frombuffer(existing, dtype=np.bool_).reshape(scores.score.shape[1:])
    total = np.zeros(exists.shape)
    for cls in waiting:
        values = scores.as_bins[cls]
        worst = min(values.max(initial=0.0, where=exists), OUTLIER * values.min(initial=np.inf, where=exists))
        total += np.maximum(worst - values, 0.0)
    top = float(total.max(initial=0.0, where=exists))
    if top <= 0.0:
        return Worth(np.zeros(exists.shape, dtype=np.int32))
    scaled: IntArray = np.rint(np.clip(total / top, 0.0, 1.0) * WORTH_LEVELS).astype(np.int32)
    return Worth(scaled)
