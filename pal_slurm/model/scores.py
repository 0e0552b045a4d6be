"""PM-scores aligned with a Cluster. In: what the store knows of each device. Out: one (class, node, slot) cube.

1.0 is the median GPU of its model, 1.2 is 20 % slower. Unknown or stale scores are 1.0: neutral placement (P7).
Two GPUs in the same bin of a class count as equal; `bins` holds bin numbers, 0 the fastest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pal_slurm.model.cluster import BoolArray, Cluster, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Ranked:
    """The GPUs of one class in order of what they count as; two of one bin are a tie."""

    rank: IntArray  # (N, S)
    levels: tuple[float, ...]  # rank -> the score that its bin counts as

    def __post_init__(self) -> None:
        self.rank.setflags(write=False)

    @cached_property
    def lists(self) -> list[list[int]]:
        """The ranks as plain numbers, for looking at one node."""
        lists: list[list[int]] = self.rank.tolist()
        return lists


@dataclass(frozen=True, eq=False)
class ScoreTable:
    classes: tuple[str, ...]  # most sensitive first: A, B, C ...
    score: FloatArray  # (C, N, S)
    bins: IntArray  # (C, N, S)
    known: BoolArray  # (C, N, S) False: neutral, because missing or stale
    class_index: dict[str, int] = field(init=False)
    _ranked: dict[int, Ranked] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not (self.score.shape == self.bins.shape == self.known.shape):
            raise ValueError("score, bins and known must have one shape")
        object.__setattr__(self, "class_index", {name: i for i, name in enumerate(self.classes)})
        object.__setattr__(self, "_ranked", {})
        for array in (self.score, self.bins, self.known):
            array.setflags(write=False)

    def index(self, cls: str) -> int:
        """Row of a class; an unknown class is taken for the most sensitive one."""
        return self.class_index.get(cls, 0)

    def share_known(self, cluster: Cluster) -> float:
        """How much is known, and fresh, of what could be: 1.0 is a score of every class for every GPU."""
        return float((self.known & cluster.gpu_exists).sum()) / max(1, len(self.classes) * cluster.n_gpus)

    @cached_property
    def bin_value(self) -> FloatArray:
        """(C, B) mean score of each bin: what a member of that bin counts as."""
        n_bins = int(self.bins.max(initial=0)) + 1
        values = np.ones((len(self.classes), n_bins))
        for c in range(len(self.classes)):
            sums = np.bincount(self.bins[c].ravel(), weights=self.score[c].ravel(), minlength=n_bins)
            counts = np.bincount(self.bins[c].ravel(), minlength=n_bins)
            np.divide(sums, counts, out=values[c], where=counts > 0)
        return values

    @cached_property
    def as_bins(self) -> FloatArray:
        """(C, N, S) what each GPU counts as where GPUs of one bin are equal."""
        values: FloatArray = np.take_along_axis(self.bin_value, self.bins.reshape(len(self.classes), -1), axis=1)
        return values.reshape(self.bins.shape)

    def ranked(self, cls: int) -> Ranked:
        """By its row; worked out once, for as many plans as go by this table."""
        if cls not in self._ranked:
            levels, inverse = np.unique(self.as_bins[cls], return_inverse=True)
            rank = inverse.reshape(self.bins[cls].shape).astype(np.int32)
            self._ranked[cls] = Ranked(rank, tuple(levels.tolist()))
        return self._ranked[cls]


NEUTRAL_WITHIN = 0.01  # a bin whose mean is that near to 1.0 is also that of GPUs of which nothing is known


def bins_with_neutral(labels: IntArray, centres: FloatArray, known: BoolArray) -> IntArray:
    """Bins of all GPUs of one class, from those of the known ones: `labels` and the means of the bins, fastest first.

    What is not known counts as 1.0, so it joins a bin of that speed or has one of its own: where only slow cards have
    scores, the others must not pass for slow, nor the slow ones for median.
    """
    bins = np.zeros(known.shape, dtype=np.int16)
    if not known.any():
        return bins
    own = int(np.abs(centres - 1.0).argmin())
    if abs(centres[own] - 1.0) > NEUTRAL_WITHIN and not known.all():
        own = int((centres < 1.0).sum())
        labels = labels + (labels >= own)
    bins[known] = labels
    bins[~known] = own
    return bins


def neutral_scores(cluster: Cluster, classes: tuple[str, ...] = ("A", "B", "C")) -> ScoreTable:
    """Nothing is known: every GPU counts as the median."""
    shape = (len(classes), cluster.n_nodes, cluster.width)
    return ScoreTable(classes, np.ones(shape), np.zeros(shape, dtype=np.int16), np.zeros(shape, dtype=np.bool_))
