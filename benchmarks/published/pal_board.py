"""The free GPUs of one round, and how PAL's published placers choose among them. In: scores, a job. Out: GPUs.

GPUs are flat numbers, node * width + slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model import ScoreTable

Gpus = tuple[int, ...]


class GpuRequest(NamedTuple):
    """What a round needs to know of a job."""

    job: int
    gpus: int
    cls: int  # row of its class in the score table


class FreeGpus:
    """Free GPUs as one flat mask, and per class the bins laid out for counting."""

    def __init__(self, scores: ScoreTable, locality: float, exists: NDArray[np.bool_] | None = None) -> None:
        _, self.nodes, self.width = scores.score.shape
        self.size = self.nodes * self.width
        self.exists = np.ones(self.size, dtype=np.bool_) if exists is None else exists.ravel().copy()
        self.n_gpus = int(self.exists.sum())
        self.free = self.exists.copy()
        self.n_free = self.n_gpus
        self._ids = np.arange(self.size)
        self._bins = [table.reshape(-1).astype(np.int64) for table in scores.bins]
        n_bins = [int(table.max(initial=0)) + 1 for table in self._bins]
        # per class: free GPUs by (bin, node), raveled, and where each GPU is counted there
        self._cell = [table * self.nodes + self._ids // self.width for table in self._bins]
        self._counts = [
            np.bincount(cell[self.free], minlength=n * self.nodes) for cell, n in zip(self._cell, n_bins, strict=True)
        ]
        self._far = max(self.size, self.width) + 1
        self.choices = [
            _locality_by_variability(scores.bin_value[c][: n_bins[c]], locality) for c in range(len(n_bins))
        ]

    def take(self, gpus: Gpus) -> None:
        self._mark(list(gpus), False)

    def give(self, gpus: Iterable[int]) -> None:
        self._mark(list(gpus), True)

    def _mark(self, gpus: list[int], free: bool) -> None:
        self.free[gpus] = free
        self.n_free += len(gpus) if free else -len(gpus)
        for cell, counts in zip(self._cell, self._counts, strict=True):
            np.add.at(counts, cell[gpus], 1 if free else -1)

    def counts(self, cls: int) -> NDArray[np.int64]:
        """(bins, nodes): free GPUs of that bin on that node."""
        return self._counts[cls].reshape(-1, self.nodes)

    def pm_first(self, cls: int, n: int) -> Gpus:
        """The n free GPUs first by (bin, how far its node's free GPUs of that bin are from being n, number)."""
        free = np.flatnonzero(self.free)
        same = self._counts[cls][self._cell[cls][free]]
        rank = (self._bins[cls][free] * self._far + np.abs(same - n)) * self.size + free
        if n < rank.size:
            rank = np.partition(rank, n - 1)[:n]
        return tuple(np.sort(rank % self.size).tolist())

    def within_node(self, cls: int, worst_bin: int, n: int, counts: NDArray[np.int64]) -> Gpus:
        """On the node with most free GPUs of at most that bin (the first such node): its lowest n of them."""
        node = int(counts.argmax())
        at = slice(node * self.width, (node + 1) * self.width)
        fit = np.flatnonzero(self.free[at] & (self._bins[cls][at] <= worst_bin))[:n] + node * self.width
        return tuple(fit.tolist())

    def packed(self, n: int) -> Gpus | None:
        """A node with exactly n free, else the tightest with enough, else spill from the emptiest nodes down."""
        if n > self.n_free:
            return None
        left = self.free.reshape(self.nodes, self.width).sum(axis=1)
        enough = np.where(left >= n, left, self._far)
        if (node := int(enough.argmin())) >= 0 and enough[node] < self._far:
            at = np.flatnonzero(self.free[node * self.width : (node + 1) * self.width])[:n]
            return tuple((at + node * self.width).tolist())
        chosen: list[int] = []
        for node in np.argsort(-left, kind="stable").tolist():
            at = np.flatnonzero(self.free[node * self.width : (node + 1) * self.width])[: n - len(chosen)]
            chosen.extend((at + node * self.width).tolist())
            if len(chosen) == n:
                break
        return tuple(sorted(chosen))


def _locality_by_variability(bin_values: NDArray[np.floating], locality: float) -> tuple[tuple[int, bool], ...]:
    """PAL's L x V matrix in the order it is walked: (bin, within one node), least product first."""
    entries = [
        (float(v) * (1.0 if within else locality), b, within)
        for b, v in enumerate(bin_values)
        for within in (True, False)
    ]
    return tuple((b, within) for _, b, within in sorted(entries, key=lambda entry: entry[0]))


Placer = Callable[[FreeGpus, GpuRequest], Gpus | None]


def pal(board: FreeGpus, ask: GpuRequest) -> Gpus | None:
    """Locality against variability for jobs of 2 GPUs up to a node; locality is ignored for all others."""
    if ask.gpus > board.n_free:
        return None
    if not 1 < ask.gpus <= board.width:
        return board.pm_first(ask.cls, ask.gpus)
    up_to = board.counts(ask.cls).cumsum(axis=0)  # free GPUs per node of at most that bin
    for worst_bin, within in board.choices[ask.cls]:
        if not within:
            if int(up_to[worst_bin].sum()) >= ask.gpus:
                return board.pm_first(ask.cls, ask.gpus)
        elif int(up_to[worst_bin].max()) >= ask.gpus:
            return board.within_node(ask.cls, worst_bin, ask.gpus, up_to[worst_bin])
    return None


def pm_first(board: FreeGpus, ask: GpuRequest) -> Gpus | None:
    return board.pm_first(ask.cls, ask.gpus) if ask.gpus <= board.n_free else None


def packed(board: FreeGpus, ask: GpuRequest) -> Gpus | None:
    return board.packed(ask.gpus)


PLACERS: Mapping[str, Placer] = {"pal": pal, "pm-first": pm_first, "packed": packed}
