"""Runs to what each GPU did in each night. In: columns of run times. Out: per GPU, kernel and night a typical time.

The typical time is the mean of the middle half of the runs (as robust as quartiles, and less noisy than a median of
few runs), transient stalls left out. A run is a stall when it took over 1.25 times what the GPU's faster runs of the
same night took; stalls are counted, and told apart by whether the whole node stalled with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.scores.medians import STALL

NODE_STALL_SHARE = 0.5  # of the GPUs of a node that ran at that time: then it was the node that stalled
SAME_TIME_S = 600.0  # runs of one node that begin within this belong together


@dataclass(frozen=True, eq=False)
class Runs:
    """Columns, one entry per run. Whole numbers stand for names: the same number, the same GPU, kernel or node."""

    gpu: IntArray
    kernel: IntArray
    node: IntArray
    night: IntArray  # days since 1970-01-01
    seconds: FloatArray
    at: FloatArray


@dataclass(frozen=True, eq=False)
class Nights:
    """Columns, one entry per GPU, kernel and night."""

    gpu: IntArray
    kernel: IntArray
    node: IntArray
    night: IntArray
    seconds: FloatArray  # typical, without stalls
    stalled: FloatArray  # mean of the stalls; 0.0: there were none
    spread: FloatArray  # standard deviation of the runs that are no stalls; 0.0: one run alone can't tell
    runs: IntArray  # all of them
    stalls: IntArray
    node_stalls: IntArray  # those of the stalls that the node's other GPUs shared
    at: FloatArray  # the newest run

    def __len__(self) -> int:
        return int(self.gpu.size)


@dataclass(frozen=True, eq=False)
class Stalls:
    """Per run, in the order of the runs."""

    stall: BoolArray
    shared: BoolArray  # the node's other GPUs stalled with it


@dataclass(frozen=True, eq=False)
class _Groups:
    """Runs sorted by GPU, kernel, night and then time; `first` and `count` of each group."""

    order: IntArray
    first: IntArray
    count: IntArray


def find_stalls(runs: Runs) -> Stalls:
    return _find_stalls(runs, _grouped(runs))


def by_night(runs: Runs) -> Nights:
    if runs.gpu.size == 0:
        return _empty()
    groups = _grouped(runs)
    order, first = groups.order, groups.first
    found = _find_stalls(runs, groups)
    stall, seconds = found.stall[order], runs.seconds[order]
    stalls = np.add.reduceat(stall, first, dtype=np.intp)
    typical, spread = _middle(seconds, first, groups.count - stalls)  # sorted: the stalls are the last of each group
    return Nights(
        gpu=runs.gpu[order][first],
        kernel=runs.kernel[order][first],
        node=runs.node[order][first],
        night=runs.night[order][first],
        seconds=typical,
        stalled=np.add.reduceat(np.where(stall, seconds, 0.0), first) / np.maximum(stalls, 1),
        spread=spread,
        runs=groups.count,
        stalls=stalls,
        node_stalls=np.add.reduceat(found.shared[order], first, dtype=np.intp),
        at=np.maximum.reduceat(runs.at[order], first),
    )


def _grouped(runs: Runs) -> _Groups:
    order = np.lexsort((runs.seconds, runs.night, runs.kernel, runs.gpu))
    fresh = np.ones(order.size, dtype=np.bool_)
    fresh[1:] = False
    for column in (runs.gpu, runs.kernel, runs.night):
        fresh[1:] |= np.diff(column[order]) != 0
    first = np.flatnonzero(fresh)
    return _Groups(order, first, np.diff(np.append(first, order.size)))


def _find_stalls(runs: Runs, groups: _Groups) -> Stalls:
    stall = np.zeros(runs.gpu.size, dtype=np.bool_)
    if stall.size:
        seconds = runs.seconds[groups.order]
        limit = STALL * _faster(seconds, groups.first, groups.count)
        stall[groups.order] = seconds > np.repeat(limit, groups.count)
    return Stalls(stall, _shared(stall, runs))


def _faster(seconds: FloatArray, first: IntArray, count: IntArray) -> FloatArray:
    """Median of the faster half of each sorted group."""
    half = (count + 1) // 2
    middle: FloatArray = (seconds[first + (half - 1) // 2] + seconds[first + half // 2]) / 2
    return middle


def _middle(seconds: FloatArray, first: IntArray, kept: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean of the middle half, and standard deviation of all, of the first `kept` of each sorted group."""
    size = np.diff(np.append(first, seconds.size))
    place = np.arange(seconds.size) - np.repeat(first, size)
    cut = kept // 4
    middle = (place >= np.repeat(cut, size)) & (place < np.repeat(kept - cut, size))
    mean = np.add.reduceat(np.where(middle, seconds, 0.0), first) / (kept - 2 * cut)
    off = np.where(place < np.repeat(kept, size), seconds - np.repeat(mean, size), 0.0)
    total, square = np.add.reduceat(off, first), np.add.reduceat(off * off, first)
    spread = np.sqrt(np.maximum(square - total * total / kept, 0.0) / np.maximum(kept - 1, 1))
    return mean, np.where(kept > 1, spread, 0.0)


def _shared(stall: BoolArray, runs: Runs) -> BoolArray:
    """Which stalls hit at least half of the GPUs, and more than one, that ran on the node at that time."""
    if not stall.any():
        return np.zeros(stall.size, dtype=np.bool_)
    when = np.floor(runs.at / SAME_TIME_S).astype(np.int64)
    _, place = np.unique(np.stack((runs.node, runs.kernel, when)), axis=1, return_inverse=True)
    place = place.ravel()

    def gpus_at(mask: BoolArray) -> IntArray:
        pairs = np.unique(np.stack((place[mask], runs.gpu[mask])), axis=1)
        return np.bincount(pairs[0], minlength=int(place.max()) + 1)

    ran, hit = gpus_at(np.ones(stall.size, dtype=np.bool_)), gpus_at(stall)
    shared: BoolArray = stall & ((hit >= 2) & (hit >= NODE_STALL_SHARE * ran))[place]
    return shared


def _empty() -> Nights:
    none, nothing = np.zeros(0, dtype=np.intp), np.zeros(0)
    return Nights(none, none, none, none, nothing, nothing, nothing, none, none, none, nothing)
