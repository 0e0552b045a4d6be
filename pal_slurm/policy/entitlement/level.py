"""The highest level that all can have at once. In: a Division, what each needs at level 1. Out: level, shares, duals.

maximise t  subject to  rate of job i >= floor_i + t need_i;  its time <= 1;  GPUs of each pool <= those that there are.

Equal jobs are one row: an optimum in which they get the same always exists. An activity is a job in a pool, or a pair.
The fairness rows' duals tell who holds the level down: a row with a positive one is tight in every optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pal_slurm.model import FloatArray, IntArray
from pal_slurm.policy.entitlement.division import Alike, Division, Shares, Together, alone
from pal_slurm.policy.solving import INFINITY, MOST_S, Columns, LinearProgram, Optimum, packed

FREE = 1e-7  # of the dearest pool's price: this is none
COLD = 500  # rows that differ: from here on a cold solve is faster by the interior point


@dataclass(frozen=True, slots=True)
class Activities:
    """Who runs where, alone or as a pair: one column each. Rates are in units of the class's own best."""

    one: IntArray  # class
    other: IntArray  # class, or -1
    pool: IntArray
    rate_one: FloatArray
    rate_other: FloatArray
    pair: IntArray  # which of the division's pairs, or -1
    jobs: FloatArray  # of the first class: 2 where both are of it


class CommonLevel:
    """Made once for a division; solved for needs and floors that change."""

    def __init__(
        self,
        division: Division,
        merged: Alike | None = None,
        *,
        gain: FloatArray | None = None,
        prices: FloatArray | None = None,
        interior: bool = False,
    ) -> None:
        """`gain`: of a class's rate, over the price of the pool; maximise those and no level.

        `interior`: an optimum away from the bounds.
        """
        self.division = division
        self.merged = merged = alone(division.n_jobs) if merged is None or division.pairs else merged
        self.count = merged.many
        self.sizes = division.sizes[merged.first]
        best = division.rates.max(axis=1, initial=0.0)
        best = np.where(best > 0, best, 1.0)
        self.unit = best[merged.first]
        self.doing = _activities(division, merged, best)
        self._level_column = len(self.doing.pool)
        self._n, self._pools = len(merged.first), len(division.gpus)
        self._gain, self._interior = gain, interior
        self._prices = np.ones(self._pools) if prices is None else prices
        self._program: LinearProgram | None = None
        self._scale = 1.0
        self.dear = False  # whether every pool had a price when last solved

    @property
    def first_row(self) -> int:
        """Of the fairness rows."""
        return self._n + self._pools

    def solve(self, needs: FloatArray, floors: FloatArray | None = None, most_s: float = MOST_S) -> Optimum:
        """`needs`, `floors`: rates by class. The answer's value is the level, its duals those of the fairness rows."""
        needs = needs / self.unit
        floor = np.zeros(self._n) if floors is None else floors / self.unit
        if self._program is None:
            self._scale = float(needs.max(initial=0.0)) or 1.0
            self._program = self._build(needs / self._scale, floor)
        else:
            for c in range(self._n):
                self._program.change(self.first_row + c, self._level_column, -needs[c] / self._scale * self.count[c])
                self._program.bound(self.first_row + c, floor[c] * self.count[c], INFINITY)
        answer = self._program.solve(most_s)
        prices = np.abs(answer.duals[self._n : self.first_row])
        self.dear = bool((prices > FREE * prices.max(initial=0.0)).all())
        duals = -answer.duals[self.first_row :] * self.count / self.unit / self._scale
        value = answer.value if self._gain is not None else answer.columns[self._level_column] / self._scale
        return Optimum(answer.columns, duals, float(value), answer.proven)

    def shares(self, answer: Optimum, value: float, note: str = "") -> Shares:
        """What that is for each job."""
        doing, division, of = self.doing, self.division, self.merged.of
        spent = answer.columns[: self._level_column]
        share, rate = np.zeros((self._n, self._pools)), np.zeros(self._n)
        paired = np.zeros((len(division.pairs), self._pools))
        for member, rates in ((doing.one, doing.rate_one), (doing.other, doing.rate_other)):
            there = member >= 0
            jobs = doing.jobs if member is doing.one else np.ones(len(spent))
            np.add.at(share, (member[there], doing.pool[there]), (spent * jobs)[there])
            np.add.at(rate, member[there], (spent * rates)[there])
        pairs = doing.pair >= 0
        paired[doing.pair[pairs], doing.pool[pairs]] = spent[pairs]
        share, rate = share / self.count[:, None], rate * self.unit / self.count
        return Shares(np.maximum(share[of], 0.0), np.maximum(rate[of], 0.0), value, note, paired)

    def _build(self, needs: FloatArray, floor: FloatArray) -> LinearProgram:
        doing, n, pools, k = self.doing, self._n, self._pools, self.count
        fair = n + pools
        two = doing.other >= 0
        none = np.full(len(two), -1)
        rows = np.column_stack(
            (doing.one, n + doing.pool, fair + doing.one, np.where(two, doing.other, none),
             np.where(two, fair + doing.other, none))
        )  # fmt: skip
        ones = np.ones(len(two))
        values = np.column_stack((doing.jobs, self.sizes[doing.one], doing.rate_one, ones, doing.rate_other))
        starts, rows, values = packed(rows, values)
        starts = np.append(starts, starts[-1] + n).astype(np.int32)
        rows = np.concatenate((rows, np.arange(fair, fair + n, dtype=np.int32)))
        values = np.concatenate((values, -needs * k))
        gain, top = np.zeros(len(two) + 1), np.full(len(two) + 1, INFINITY)
        if self._gain is None:
            gain[-1] = 1.0
        else:
            worth = self._gain * self.unit
            gain[:-1] = worth[doing.one] * doing.rate_one + np.where(two, worth[doing.other] * doing.rate_other, 0.0)
            gain[:-1] /= self._prices[doing.pool]
            top[-1] = 0.0
        if not needs.any():  # nobody holds the level down: there is none
            top[-1] = 0.0
        upper = np.concatenate((k, self.division.gpus, np.full(n, INFINITY)))
        lower = np.concatenate((np.full(fair, -INFINITY), floor * k))
        program = LinearProgram(Columns(gain, top, starts, rows, values), lower, upper)
        if n >= COLD or self._interior:
            program.interior(corner=not self._interior)
        return program


def _activities(division: Division, merged: Alike, best: FloatArray) -> Activities:
    first = merged.first
    rates = division.rates[first] / best[first, None]
    one, pool = np.nonzero((rates > 0) & (division.gpus >= division.sizes[first, None]))
    none = np.full(len(one), -1)
    alone_ = Activities(one, none, pool, rates[one, pool], np.zeros(len(one)), none, np.ones(len(one)))
    if division.together is not None:
        return _with_kinds(division, division.together, merged, best[first], alone_)
    if not division.pairs:
        return alone_
    a = np.array([pair.one for pair in division.pairs])
    b = np.array([pair.other for pair in division.pairs])
    of_a = np.array([pair.rates_one for pair in division.pairs]) / best[a, None]
    of_b = np.array([pair.rates_other for pair in division.pairs]) / best[b, None]
    which, where = np.nonzero(((of_a > 0) | (of_b > 0)) & (division.gpus >= division.sizes[a, None]))
    return Activities(
        np.concatenate((alone_.one, a[which])),
        np.concatenate((alone_.other, b[which])),
        np.concatenate((alone_.pool, where)),
        np.concatenate((alone_.rate_one, of_a[which, where])),
        np.concatenate((alone_.rate_other, of_b[which, where])),
        np.concatenate((alone_.pair, which)),
        np.ones(len(one) + len(which)),
    )


def _with_kinds(
    division: Division, together: Together, merged: Alike, unit: FloatArray, alone_: Activities
) -> Activities:
    """A column for each two classes of one size; two jobs of one class are one column that counts twice."""
    first, kind = merged.first, together.kind[merged.first]
    size = division.sizes[first]
    a, b = np.triu_indices(len(first))
    can = (size[a] == size[b]) & ((a != b) | (merged.many[a] > 1))
    a, b = a[can], b[can]
    of_a = together.rates[kind[a], kind[b]] / unit[a, None]
    of_b = together.rates[kind[b], kind[a]] / unit[b, None]
    which, where = np.nonzero((of_a > 0) & (of_b > 0) & (division.gpus >= size[a, None]))
    one, other = a[which], b[which]
    same = one == other
    rate = of_a[which, where]
    return Activities(
        np.concatenate((alone_.one, one)),
        np.concatenate((alone_.other, np.where(same, -1, other))),
        np.concatenate((alone_.pool, where)),
        np.concatenate((alone_.rate_one, np.where(same, 2 * rate, rate))),
        np.concatenate((alone_.rate_other, np.where(same, 0.0, of_b[which, where]))),
        np.concatenate((alone_.pair, np.full(len(which), -1))),
        np.concatenate((alone_.jobs, np.where(same, 2.0, 1.0))),
    )
