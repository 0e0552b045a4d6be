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


def by_night(runs: Runs) -> Nights:
    order = np.lexsort((runs.seconds, runs.night, runs.kernel, runs.gpu))
    gpu, kernel, night, seconds = (c[order] for c in (runs.gpu, runs.kernel, runs.night, runs.seconds))
    if gpu.size == 0:
        return _empty()
    fresh = np.ones(gpu.size, dtype=np.bool_)
    fresh[1:] = (gpu[1:] != gpu[:-1]) | (kernel[1:] != kernel[:-1]) | (night[1:] != night[:-1])
    first = np.flatnonzero(fresh)
    group = np.cumsum(fresh) - 1
    count = np.diff(np.append(first, gpu.size))
    stall = seconds > (STALL * _faster(seconds, first, count))[group]
    shared = _shared(stall, runs.node[order], kernel, gpu, runs.at[order])
    stalls = np.add.reduceat(stall, first, dtype=np.intp)
    kept = count - stalls  # sorted: the stalls are the last of each group
    typical, spread = _middle(seconds, first, kept)
    return Nights(
        gpu=gpu[first],
        kernel=kernel[first],
        node=runs.node[order][first],
        night=night[first],
        seconds=typical,
        stalled=np.add.reduceat(np.where(stall, seconds, 0.0), first) / np.maximum(stalls, 1),
        spread=spread,
        runs=count,
        stalls=stalls,
        node_stalls=np.add.reduceat(shared, first, dtype=np.intp),
        at=np.maximum.reduceat(runs.at[order], first),
    )


def _faster(seconds: FloatArray, first: IntArray, count: IntArray) -> FloatArray:
    """Median of the faster half of each sorted group."""
    half = (count + 1) // 2
    middle: FloatArray = (seconds[first + (half - 1) // 2] + seconds[first + half // 2]) / 2
    return middle


def _middle(seconds: FloatArray, first: IntArray, kept: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean of the middle half, and standard deviation of all, of the first `kept` of each sorted group."""
    cut = kept // 4
    sums = np.concatenate(([0.0], np.cumsum(seconds)))
    mean = (sums[first + kept - cut] - sums[first + cut]) / (kept - 2 * cut)
    off = seconds - np.repeat(mean, np.diff(np.append(first, seconds.size)))
    sums = np.concatenate(([0.0], np.cumsum(off)))
    squares = np.concatenate(([0.0], np.cumsum(off * off)))
    total, square = sums[first + kept] - sums[first], squares[first + kept] - squares[first]
    spread = np.sqrt(np.maximum(square - total * total / kept, 0.0) / np.maximum(kept - 1, 1))
    return mean, np.where(kept > 1, spread, 0.0)


def _shared(stall: BoolArray, node: IntArray, kernel: IntArray, gpu: IntArray, at: FloatArray) -> BoolArray:
    """Which stalls hit at least half of the GPUs, and more than one, that ran on the node at that time."""
    shared = np.zeros(stall.size, dtype=np.bool_)
    if not stall.any():
        return shared
    when = np.floor(at / SAME_TIME_S).astype(np.int64)
    _, place = np.unique(np.stack((node, kernel, when)), axis=1, return_inverse=True)
    place = place.ravel()

    def gpus_at(mask: BoolArray) -> IntArray:
        pairs = np.unique(np.stack((place[mask], gpu[mask])), axis=1)
        return np.bincount(pairs[0], minlength=int(place.max()) + 1)

    ran, hit = gpus_at(np.ones(stall.size, dtype=np.bool_)), gpus_at(stall)
    shared[:] = stall & ((hit >= 2) & (hit >= NODE_STALL_SHARE * ran))[place]
    return shared


def _empty() -> Nights:
    none, nothing = np.zeros(0, dtype=np.intp), np.zeros(0)
    return Nights(none, none, none, none, nothing, nothing, nothing, none, none, none, nothing)
