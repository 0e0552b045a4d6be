"""Nights to scores. In: what each GPU did per kernel and night. Out: its PM-score, how sure, and what stood out.

Everything is a logarithm here: a ratio is a difference, and 1.2 is as far from 1.0 as 1 / 1.2. For each
kernel and model

    log seconds(gpu, night) = level(night) + score(gpu) + noise

A night's level is the median over its GPUs of what their scores don't explain, so a night that saw a part of the fleet
only does not shift it, and a fleet that is slower as a whole moves the level (see fleet.py) and no score. A score is
the mean over nights, newer ones weighing more. Single slow nights are left out as transient; when the newest two
agree on another value, the older ones are forgotten. Last, a score is pulled towards its node's mean and towards 1.0,
by what its noise explains and never by more than one standard error, so that an outlier stays one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.scores.medians import LEAST_ERROR, SIGMAS, STALL
from pal_slurm.scores.nights import Nights

CHANGED = 0.08  # two nights in a row this far (log) from the ones before: the GPU is another one now
LASTING_STALLS = 0.5  # of the runs: where more than this stall, the median run is slow, and so is the GPU
LEAST_RUNS = 6  # before anything is said of how often a GPU stalls
MIDDLE_HALF = 1.2  # variance of the mean of the middle half over that of the mean, for normal scatter
MOST_LOG = 50.0  # an interval that reaches further than e^50 says "anything", and can still be stored
HALF_LIFE = 7.0  # nights until a night weighs half
PRIOR_ERROR = 0.03  # of one run, where nobody measured twice
_POLISHES = 4


@dataclass(frozen=True, eq=False)
class Scores:
    """Columns, one entry per GPU that was measured."""

    gpu: IntArray
    node: IntArray
    log: FloatArray  # of the score
    error: FloatArray  # standard error of it
    node_log: FloatArray  # the part that all GPUs of its node share
    runs: IntArray
    nights: IntArray
    stalls: IntArray
    node_stalls: IntArray
    at: FloatArray
    since: IntArray  # the first night that counts
    intermittent: BoolArray  # it stalls so often that the stalls count
    level_night: IntArray  # the nights, and the level (log seconds) of each
    level: FloatArray

    @property
    def score(self) -> FloatArray:
        return np.exp(self.log)

    @property
    def low(self) -> FloatArray:
        return np.exp(np.maximum(self.log - SIGMAS * self.error, -MOST_LOG))

    @property
    def high(self) -> FloatArray:
        return np.exp(np.minimum(self.log + SIGMAS * self.error, MOST_LOG))


def combine(nights: Nights, setup: IntArray) -> Scores:
    """Scores of the GPUs of one model, by one kernel. `setup`: driver and power cap of each entry, as a number."""
    order = np.lexsort((nights.night, nights.gpu))
    gpus, gpu = np.unique(nights.gpu[order], return_inverse=True)
    days, day = np.unique(nights.night[order], return_inverse=True)
    value, intermittent = _values(nights, order, gpu)
    same = _same_setup(setup[order], gpu)
    kept_runs = np.maximum(nights.runs[order] - nights.stalls[order], 1)
    run_error = _run_error(nights.spread[order] / nights.seconds[order], kept_runs)
    age = float(days[-1]) - nights.night[order]
    weight = np.where(same, 0.5 ** (age / HALF_LIFE) * kept_runs, 0.0)
    level = _levels(value, gpu, day, weight, gpus.size, days.size)
    off = value - level[day]
    weight = _without_odd_nights(off, weight, gpu, gpus.size, run_error / np.sqrt(kept_runs))
    total = np.bincount(gpu, weight, gpus.size)
    log = np.bincount(gpu, weight * off, gpus.size) / total
    error = _errors(off - log[gpu], weight, gpu, run_error, kept_runs)
    node = np.zeros(gpus.size, dtype=np.intp)
    node[gpu] = nights.node[order]  # in the order of nights: where it was last
    pulled, node_log = _pulled(log - np.median(log), error, node)
    counted = weight > 0
    return Scores(
        gpu=gpus,
        node=node,
        log=pulled,
        error=np.hypot(error, LEAST_ERROR),
        node_log=node_log,
        runs=_sum(nights.runs[order], gpu, counted, gpus.size),
        nights=np.bincount(gpu[counted], minlength=gpus.size),
        stalls=_sum(nights.stalls[order], gpu, same, gpus.size),
        node_stalls=_sum(nights.node_stalls[order], gpu, same, gpus.size),
        at=_greatest(nights.at[order], gpu, gpus.size),
        since=_least(nights.night[order][counted], gpu[counted], gpus.size),
        intermittent=intermittent,
        level_night=days,
        level=level,
    )


def _values(nights: Nights, order: IntArray, gpu: IntArray) -> tuple[FloatArray, BoolArray]:
    """Log seconds per entry, and per GPU whether it stalls too often for stalls to be transient: then they count."""
    stalls, runs = nights.stalls[order], nights.runs[order]
    size = int(gpu[-1]) + 1
    all_stalls, all_runs = np.bincount(gpu, stalls, size), np.bincount(gpu, runs, size)
    often = (all_stalls > LASTING_STALLS * all_runs) & (all_runs >= LEAST_RUNS)
    share = stalls / runs
    mixed = (1 - share) * nights.seconds[order] + share * nights.stalled[order]
    return np.log(np.where(often[gpu], mixed, nights.seconds[order])), often


def _same_setup(setup: IntArray, gpu: IntArray) -> BoolArray:
    """Entries since the newest change of driver or power cap; entries are by GPU and night."""
    last = np.append(np.flatnonzero(np.diff(gpu)), gpu.size - 1)
    other = setup != setup[last[gpu]]
    place = np.arange(gpu.size)
    newest_other = np.full(last.size, -1)
    np.maximum.at(newest_other, gpu[other], place[other])
    same: BoolArray = place > newest_other[gpu]
    return same


def _run_error(relative: FloatArray, runs: IntArray) -> FloatArray:
    """Standard error of one run per entry: its own spread, steadied by the fleet's where it has few runs."""
    several = runs > 1
    pooled = float(np.median(relative[several])) if several.any() else PRIOR_ERROR
    freedom = runs - 1
    return np.sqrt((4 * pooled**2 + freedom * relative**2) / (4 + freedom))


def _levels(value: FloatArray, gpu: IntArray, day: IntArray, weight: FloatArray, gpus: int, days: int) -> FloatArray:
    """Each night's level, by polishing medians: GPUs' scores and nights' levels in turn."""
    log: FloatArray = np.zeros(gpus)
    use = weight > 0
    level: FloatArray = np.zeros(days)
    for _ in range(_POLISHES if days > 1 else 1):
        level = _medians(np.where(use, value - log[gpu], np.nan), day, days)
        missing = np.isnan(level)
        if missing.any():  # nights of which only older setups remain
            level[missing] = _medians(value, day, days)[missing]
        log = np.bincount(gpu, weight * (value - level[day]), gpus) / np.bincount(gpu, weight, gpus)
    return level


def _medians(value: FloatArray, group: IntArray, size: int) -> FloatArray:
    """Median per group, entries that are NaN left out."""
    use = ~np.isnan(value)
    order = np.lexsort((value[use], group[use]))
    ordered = value[use][order]
    count = np.bincount(group[use], minlength=size)
    first = np.concatenate(([0], np.cumsum(count)[:-1]))
    result = np.full(size, np.nan)
    some = count > 0
    result[some] = (ordered[(first + (count - 1) // 2)[some]] + ordered[(first + count // 2)[some]]) / 2
    return result


def _without_odd_nights(off: FloatArray, weight: FloatArray, gpu: IntArray, gpus: int, error: FloatArray) -> FloatArray:
    """Weights with transient nights left out, and with what was before a lasting change forgotten.

    Only GPUs of which some night is far from its median are looked at one by one: few.
    """
    weight = weight.copy()
    use = weight > 0
    middle = _medians(np.where(use, off, np.nan), gpu, gpus)
    far = use & (np.abs(off - middle[gpu]) > np.maximum(CHANGED, 4 * error))
    for g in np.unique(gpu[far]):
        mine = np.flatnonzero((gpu == g) & use)
        if mine.size < 2:
            continue
        start = _last_change(off[mine], error[mine])
        weight[mine[:start]] = 0.0
        rest = mine[start:]
        best = float(np.median(np.sort(off[rest])[: (rest.size + 1) // 2]))
        weight[rest[off[rest] > best + np.log(STALL)]] = 0.0
    return weight


def _last_change(off: FloatArray, error: FloatArray) -> int:
    """Where the newest stretch of at least two nights begins that the nights before do not resemble."""
    if off.size < 3:
        return 0
    for start in range(off.size - 2, 0, -1):
        new, old = off[start:], off[:start]
        apart = abs(float(np.median(new)) - float(np.median(old)))
        agree = float(np.ptp(new[:2])) < apart / 2 and float(np.ptp(new)) < apart
        if agree and apart > max(CHANGED, 4 * float(np.median(error))):
            return start
    return 0


def _errors(
    residual: FloatArray, weight: FloatArray, gpu: IntArray, run_error: FloatArray, runs: IntArray
) -> FloatArray:
    """Standard error of each GPU's mean: runs scatter, and so do nights."""
    size = int(gpu[-1]) + 1
    total = np.bincount(gpu, weight, size)
    within = MIDDLE_HALF * run_error**2 / runs
    counted = weight > 0
    several = counted & (np.bincount(gpu[counted], minlength=size) > 1)[gpu]
    excess = np.median(residual[several] ** 2) / 0.455 - np.median(within[several]) if several.any() else 0.0
    variance = within + max(float(excess), 0.0)  # 0.455: the median of a squared normal draw
    error: FloatArray = np.sqrt(np.bincount(gpu, weight**2 * variance, size)) / total
    return np.maximum(error, 1e-6)


def _pulled(log: FloatArray, error: FloatArray, node: IntArray) -> tuple[FloatArray, FloatArray]:
    """Scores pulled towards their node's mean and 1.0, and the nodes' means.

    Variances between nodes and within them are taken from medians of absolute differences, so that outliers, which are
    what we look for, do not pass for noise.
    """
    _, at = np.unique(node, return_inverse=True)
    size = int(at.max()) + 1
    count = np.bincount(at, minlength=size)
    centre = _medians(log, at, size)
    noise = float(np.median(error**2))
    inside = (log - centre[at])[(count > 1)[at]]
    if inside.size < 4:  # one GPU per node: nothing tells the two apart
        between = max(_variance(log) - noise, 1e-12)
        mean = between / (between + error**2) * log
        return _at_most(mean, log, error), np.zeros(log.size)
    own = max(_variance(inside) * float(np.median(count / np.maximum(count - 1, 1))) - noise, 1e-12)
    precision = 1 / (own + error**2)
    node_error = 1 / np.bincount(at, precision, size)
    mean = np.bincount(at, precision * log, size) * node_error
    robust = np.where(np.abs(mean - centre) > np.sqrt(node_error), centre, mean)  # an outlier in the node: not its mean
    between = max(_variance(robust) - float(np.median(node_error)), 1e-12)
    node_log = robust * between / (between + node_error)
    pulled = node_log[at] + own / (own + error**2) * (log - node_log[at])
    return _at_most(pulled, log, error), node_log[at]


def _at_most(pulled: FloatArray, log: FloatArray, error: FloatArray) -> FloatArray:
    return log + np.clip(pulled - log, -error, error)


def _variance(values: FloatArray) -> float:
    return float((1.4826 * np.median(np.abs(values - np.median(values)))) ** 2)


def _sum(values: IntArray, gpu: IntArray, mask: BoolArray, size: int) -> IntArray:
    return np.bincount(gpu[mask], values[mask], size).astype(np.intp)


def _greatest(values: FloatArray, gpu: IntArray, size: int) -> FloatArray:
    result = np.full(size, -np.inf)
    np.maximum.at(result, gpu, values)
    return result


def _least(values: IntArray, gpu: IntArray, size: int) -> IntArray:
    result = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(result, gpu, values)
    return result
