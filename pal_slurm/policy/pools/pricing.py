"""What a GPU of each pool costs those who wait, and whether to take one. In: what the users run. Out: prices, a pool.

A job that can't be moved keeps what it takes until it ends, so a bad match is paid for by all that come after it.

- The shadow prices are the duals of: as much of the users' mixture of jobs as can be done for ever. At them every
  kind of job has pools where it is cheapest, and a cluster that keeps to those can carry the most.
- What a second of a GPU costs others is its shadow price times the waiting jobs over all GPUs: nothing when none
  waits, everything when many do. What it costs the job itself is the second. So one rule is right at every load:
  a job takes the pool where (1 + price) x seconds is least, or nearly, the wait for a pool that is full included.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np

from pal_slurm.model import BoolArray, FloatArray
from pal_slurm.policy.solving import INFINITY, Columns, LinearProgram, NoAnswer, Optimum, packed

CROWD = 100.0  # times its share of the GPUs a waiting job makes a second dearer: it and all behind it wait for it
NEARLY = 0.1  # dearer than the cheapest, and still taken
MIXTURE = 400  # arrivals whose kinds are the mixture
AGAIN = 50  # arrivals after which prices are made anew; sooner while few have come
USUAL_S = 4 * 3600.0  # of work on the best GPUs that a job is taken to have,
BELIEF = 20  # until so many have told otherwise
LAST = 200  # ended jobs that tell
MOST_S = 2.0  # for the solver; without an answer all pools cost the same

Kind = tuple[tuple[float, ...], int]  # rates by pool, GPUs


class Market:
    """Prices of the pools, by who came lately; what a job costs where."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self.gpus = np.array(gpus, dtype=float)
        self._shadow: FloatArray = np.ones(len(gpus))
        self._came: deque[Kind] = deque(maxlen=MIXTURE)
        self._work_s: deque[float] = deque(maxlen=LAST)
        self._next = 1
        self._arrivals = 0

    def arrived(self, rates: tuple[float, ...], gpus: int) -> None:
        self._came.append((rates, gpus))
        self._arrivals += 1

    def ended(self, work_s: float) -> None:
        """`work_s`: what it did, in seconds on its best GPUs."""
        self._work_s.append(work_s)

    @property
    def expected_s(self) -> float:
        """Work of a job of which nothing is known."""
        return (sum(self._work_s) + BELIEF * USUAL_S) / (len(self._work_s) + BELIEF)

    @property
    def shadow(self) -> FloatArray:
        """Of a GPU of each pool: 1 on average."""
        if self._arrivals >= self._next:
            self._next = self._arrivals + min(AGAIN, self._arrivals)
            kinds = Counter(self._came)
            self._shadow = shadow_prices(np.array([kind[0] for kind in kinds]), np.array(
                [many * kind[1] for kind, many in kinds.items()], dtype=float), self.gpus)  # fmt: skip
        return self._shadow

    def prices(self, waiting: int) -> FloatArray:
        """Of a GPU for a second, in seconds of other jobs."""
        return np.asarray(CROWD * waiting / self.gpus.sum() * self.shadow)


class Chooser:
    """Lets those who wait choose one after the other."""

    def __init__(self, market: Market, waiting: int) -> None:
        self._prices = 1.0 + market.prices(waiting)
        self._work_s = market.expected_s
        self._each_s = self._work_s / np.maximum(market.gpus, 1.0)  # between two ends in a pool
        self._ahead = np.zeros(len(market.gpus))

    def takes(self, rates: tuple[float, ...], gpus: int, free: Sequence[int]) -> tuple[int, tuple[float, ...]]:
        """The pool that it takes now, and what else would do; -1: it waits for a better one."""
        rate = np.array(rates)
        open_ = np.array(free) >= gpus
        with np.errstate(divide="ignore"):
            cost = self._work_s / rate * self._prices + np.where(open_, 0.0, (self._ahead + 1) * self._each_s)
        cheapest = int(cost.argmin())
        if open_[cheapest]:
            return cheapest, _only(rate, open_ & (cost <= cost[cheapest] * (1 + NEARLY)))
        now = int(np.where(open_, cost, np.inf).argmin())
        if open_[now] and cost[now] <= cost[cheapest] * (1 + NEARLY):
            return now, _only(rate, open_ & (cost <= cost[cheapest] * (1 + NEARLY)))
        self._ahead[cheapest] += gpus
        return -1, ()


def _only(rate: FloatArray, there: BoolArray) -> tuple[float, ...]:
    return tuple(np.where(there, rate, 0.0).tolist())


def shadow_prices(rates: FloatArray, work: FloatArray, gpus: FloatArray) -> FloatArray:
    """(pools,) mean 1 over the GPUs. `rates`: (kinds, pools), `work`: of each kind, on its best GPUs."""
    kinds, pools = rates.shape
    try:
        price = np.abs(for_ever(rates, work, gpus).duals[kinds:])
    except NoAnswer:
        return np.ones(pools)
    paid = float((price * gpus).sum())
    return price * (float(gpus.sum()) / paid) if paid > 0 else np.ones(pools)


def for_ever(rates: FloatArray, work: FloatArray, gpus: FloatArray) -> Optimum:
    """The most work of this mixture that can be done in a second; duals: of the kinds, then of the pools."""
    kinds, pools = rates.shape
    kind, pool = np.nonzero(rates > 0)
    starts, rows, values = packed(
        np.column_stack((kind, kinds + pool)), np.column_stack((rates[kind, pool], np.ones(len(kind))))
    )
    starts = np.append(starts, starts[-1] + kinds).astype(np.int32)
    rows = np.concatenate((rows, np.arange(kinds, dtype=np.int32)))
    values = np.concatenate((values, -work / work.sum()))
    gain = np.append(np.zeros(len(kind)), 1.0)
    lower = np.concatenate((np.zeros(kinds), np.full(pools, -INFINITY)))
    upper = np.concatenate((np.full(kinds, INFINITY), gpus))
    return LinearProgram(Columns(gain, np.full(len(gain), INFINITY), starts, rows, values), lower, upper).solve(MOST_S)
