"""What a job's pace says of the GPUs that it ran on. In: beliefs, a measured ratio. Out: beliefs.

A belief is a normal distribution of the logarithm of a GPU's score. A job runs at the pace of its slowest GPU:

    log(measured / predicted without scores) = max over its GPUs of log score + noise

Which one is the slowest, nobody sees. So each GPU is the slowest with some probability; as far as it is, it moves
towards what was measured, as far as it is not, it is at most that slow (the update of a probit). What comes out is
matched by a normal distribution again (assumed density filtering). A measurement that no belief explains is either a
GPU that changed or a job that was disturbed: the first one moves half-way and leaves doubt, the next one decides. Where
a profile says what the GPUs were, a measurement that fits it makes them likely to be that again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from pal_slurm.model import FloatArray

CHANGE, DISTURBED = 0.01, 0.01  # how often a GPU changes, and a job is disturbed, between two measurements
RECOVERED = 0.05  # how often GPUs that changed are again what they were
JUMP = 0.35  # standard deviation (log) of a change
MOST_GPUS = 256  # a larger job says next to nothing about any one of its GPUs
DRIFT = 0.015  # per square root of a day: what a GPU changes by without anybody's noticing
PRIOR = 0.10  # standard deviation before anything was measured
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Of the GPUs of one job, for one class."""

    mean: FloatArray
    var: FloatArray

    def aged(self, days: FloatArray) -> Beliefs:
        """With the doubt that time brings; never more than where nothing was measured."""
        grown = self.var + DRIFT**2 * np.maximum(days, 0.0)
        return Beliefs(self.mean, np.maximum(self.var, np.minimum(grown, PRIOR**2)))


@dataclass(frozen=True, slots=True)
class Pace:
    """What is expected of the slowest of some GPUs."""

    mean: float
    var: float


def expected(beliefs: Beliefs) -> Pace:
    """Mean and variance of the slowest, by adding GPUs one by one (Clark 1961)."""
    order = np.argsort(beliefs.mean)
    mean, var = float(beliefs.mean[order[0]]), float(beliefs.var[order[0]])
    for i in order[1:].tolist():
        mean, var = _slower_of_two(mean, var, float(beliefs.mean[i]), float(beliefs.var[i]))
    return Pace(mean, var)


def _slower_of_two(m1: float, v1: float, m2: float, v2: float) -> tuple[float, float]:
    spread = sqrt(max(v1 + v2, 1e-18))
    alpha = (m1 - m2) / spread
    first, density = 0.5 * erfc(-alpha / sqrt(2)), np.exp(-0.5 * alpha * alpha) / sqrt(2 * np.pi)
    mean = m1 * first + m2 * (1 - first) + spread * density
    square = (m1 * m1 + v1) * first + (m2 * m2 + v2) * (1 - first) + (m1 + m2) * spread * density
    return float(mean), max(float(square - mean * mean), 1e-12)


def hear(beliefs: Beliefs, ratio: float, noise: float, usual: Beliefs | None = None) -> Beliefs:
    """After a job's `ratio` (log) was measured with standard deviation `noise`; a disturbed job changes little.

    `usual`: what the GPUs were before anything odd was heard, where that is known.
    """
    if not 0 < beliefs.mean.size <= MOST_GPUS:
        return beliefs
    calm, calm_weight = _explained(beliefs, ratio, noise**2)
    n = beliefs.mean.size
    outcomes = [(calm, calm_weight * (1 - CHANGE - DISTURBED))]
    pace = expected(beliefs)
    disturbed = _normal(ratio, pace.mean, pace.var + noise**2 + JUMP**2)
    outcomes.append((beliefs, disturbed * DISTURBED))
    if usual is not None:
        again, weight = _explained(usual, ratio, noise**2)
        outcomes.append((again, weight * RECOVERED))
    if calm_weight < disturbed:  # only then can a change matter: it costs as many updates as there are GPUs
        for g in range(n):
            var = beliefs.var.copy()
            var[g] += JUMP**2
            changed, weight = _explained(Beliefs(beliefs.mean, var), ratio, noise**2)
            outcomes.append((changed, weight * CHANGE / n))
    return _matched(outcomes)


def _explained(beliefs: Beliefs, ratio: float, noise: float) -> tuple[Beliefs, float]:
    """Beliefs after the measurement, if nothing odd happened, and how likely the measurement was."""
    mean, var = beliefs.mean, beliefs.var
    total = var + noise
    a = (ratio - mean) / np.sqrt(total)
    below = np.maximum(_phi(a), _TINY)  # how likely each is no slower than what was measured
    log_below = np.log(below)
    log_each = -0.5 * (a * a + np.log(2 * np.pi * total)) + log_below.sum() - log_below
    top = float(log_each.max())
    each = np.exp(log_each - top)
    slowest = each / each.sum()
    gain = var / total
    blamed_mean, blamed_var = mean + gain * (ratio - mean), var * (1 - gain)
    r = np.exp(-0.5 * a * a) / sqrt(2 * np.pi) / below
    r = np.where(a < -30, -a, r)  # far in the tail, where both vanish
    spared_mean = mean - var / np.sqrt(total) * r
    spared_var = np.maximum(var - var * gain * r * (a + r), 1e-9)
    new_mean = slowest * blamed_mean + (1 - slowest) * spared_mean
    square = slowest * (blamed_var + blamed_mean**2) + (1 - slowest) * (spared_var + spared_mean**2)
    # Each GPU is the slowest with the weight given: their sum is the density of the measurement
    return Beliefs(new_mean, np.maximum(square - new_mean**2, 1e-9)), float(each.sum()) * float(np.exp(min(top, 700.0)))


def _matched(outcomes: list[tuple[Beliefs, float]]) -> Beliefs:
    """One normal distribution per GPU with the mean and variance of the mixture."""
    weights = np.array([weight for _, weight in outcomes])
    total = float(weights.sum())
    if not total > 0:
        return outcomes[1][0]
    share = (weights / total)[:, None]
    means = np.array([belief.mean for belief, _ in outcomes])
    mean = (share * means).sum(axis=0)
    var = (share * (np.array([belief.var for belief, _ in outcomes]) + means**2)).sum(axis=0) - mean**2
    return Beliefs(mean, np.maximum(var, 1e-9))


def _normal(x: float, mean: float, var: float) -> float:
    return float(np.exp(-0.5 * (x - mean) ** 2 / var) / sqrt(2 * np.pi * var))


def _phi(a: FloatArray) -> FloatArray:
    """The normal distribution function."""
    return np.array([0.5 * erfc(-value / sqrt(2)) for value in a.tolist()])
