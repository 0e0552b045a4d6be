"""What is to be divided among whom. In: rates, sizes, pools. Out: a Division that can be trusted, and its classes.

A rate is what the whole job does in a second with all its GPUs in that pool; 0: it can't run there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pal_slurm.errors import BadInput
from pal_slurm.model import BoolArray, FloatArray, IntArray

ABSURD = 1e6  # no GPU that anybody would put beside another is so many times as fast


class Pair(NamedTuple):
    """Two jobs of one size that may share their GPUs, and the rates of both by pool when they do."""

    one: int
    other: int
    rates_one: FloatArray
    rates_other: FloatArray


class Together(NamedTuple):
    """What sharing does to jobs by their kind: so those of one kind are equals, and pairs need not be counted out."""

    kind: IntArray  # (jobs,)
    rates: FloatArray  # (kinds, kinds, pools) of a job of the first kind beside one of the second; 0: not there


@dataclass(frozen=True, eq=False)
class Division:
    """Jobs are rows; pools are columns. What an objective does not ask for may be left out."""

    rates: FloatArray  # (jobs, pools)
    gpus: FloatArray  # (pools,)
    sizes: FloatArray = field(default_factory=lambda: np.zeros(0))  # GPUs of each job; 1
    weights: FloatArray = field(default_factory=lambda: np.zeros(0))  # 1; 0: owed nothing
    steps: FloatArray | None = None  # still to be done
    age_s: FloatArray | None = None  # since it came
    isolated_s: FloatArray | None = None  # what its steps so far would have taken with 1/n of everything
    left_s: FloatArray | None = None  # until it is to be done; infinity: whenever, below 0: it is late
    prices: FloatArray | None = None  # (pools,) of a GPU
    entity: IntArray | None = None  # (jobs,) whose it is
    pairs: tuple[Pair, ...] = ()
    together: Together | None = None  # any two of one size may share; in place of `pairs`
    names: tuple[str, ...] = ()  # of the jobs, for what is said of them

    def __post_init__(self) -> None:
        n = len(self.rates)
        for name in ("sizes", "weights"):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.ones(n))
        if self.rates.ndim != 2 or self.rates.shape[1] != len(self.gpus):
            raise BadInput(f"There are {len(self.gpus)} pools, and rates of the shape {self.rates.shape}.")
        self._check_rates(self.rates)
        for pair in self.pairs:
            if self.sizes[pair.one] != self.sizes[pair.other] or pair.one == pair.other:
                raise BadInput(f"{self.called(pair.one)} and {self.called(pair.other)} can't share: sizes differ.")
            self._check_rates(np.array([pair.rates_one, pair.rates_other]))
        self._check_together()
        self._check("sizes", above=True)
        for name in ("weights", "steps", "age_s", "isolated_s"):
            self._check(name)
        if (self.left_s is not None and np.isnan(self.left_s).any()) or not np.isfinite(self.gpus).all():
            raise BadInput("left_s and gpus: not a number.")
        if (self.gpus < 0).any() or (self.prices is not None and not (self.prices > 0).all()):
            raise BadInput("A pool has 0 GPUs or more, and a price above 0.")

    def _check_rates(self, rates: FloatArray) -> None:
        wrong = ~np.isfinite(rates) | (rates < 0)
        if wrong.any():
            job, pool = np.argwhere(wrong)[0].tolist()
            raise BadInput(f"{self.called(job)}, pool {pool}: a rate is 0 or more, not {rates[job, pool]:g}.")
        most = rates.max(axis=1, initial=0.0)
        least = np.where(rates > 0, rates, np.inf).min(axis=1, initial=np.inf)
        if (most > ABSURD * least).any():
            job = int(np.argmax(most > ABSURD * least))
            raise BadInput(f"{self.called(job)}: rates of {least[job]:g} and {most[job]:g}; one of them is wrong.")

    def _check_together(self) -> None:
        if self.together is None:
            return
        kind, rates = self.together
        n = len(rates)
        if rates.shape != (n, n, len(self.gpus)) or kind.shape != (self.n_jobs,):
            raise BadInput(
                f"Sharing: {self.n_jobs} jobs, {len(self.gpus)} pools, and rates of the shape {rates.shape}."
            )
        if self.n_jobs and not 0 <= kind.min() <= kind.max() < n:
            raise BadInput("Sharing: a job's kind is none of those that are told.")
        wrong = ~np.isfinite(rates) | (rates < 0)
        if wrong.any():
            one, other, pool = np.argwhere(wrong)[0].tolist()
            raise BadInput(f"Kind {one} beside {other}, pool {pool}: {rates[one, other, pool]:g} is no rate.")

    def _check(self, name: str, *, above: bool = False) -> None:
        values = getattr(self, name)
        if values is None:
            return
        if len(values) != len(self.rates):
            raise BadInput(f"{name}: {len(values)} values for {len(self.rates)} jobs.")
        wrong = ~np.isfinite(values) | (values <= 0 if above else values < 0)
        if wrong.any():
            job = int(wrong.argmax())
            raise BadInput(f"{self.called(job)}, {name}: {values[job]:g} can't be.")

    def called(self, job: int) -> str:
        return f"Job {self.names[job]}" if self.names else f"Job {job + 1}"

    def needs(self, name: str) -> FloatArray:
        """What an objective can't do without."""
        value = getattr(self, name)
        if value is None:
            raise BadInput(f"This entitlement needs {name} of each job, and nobody told it.")
        return np.asarray(value)

    @property
    def n_jobs(self) -> int:
        return len(self.rates)

    @cached_property
    def equal(self) -> FloatArray:
        """(jobs,) the rate with an equal share of everything; 1 where it can't run anywhere."""
        total = float(self.gpus.sum())
        rate: FloatArray = self.rates @ self.gpus / total if total else np.zeros(self.n_jobs)
        return np.where(rate > 0, rate, 1.0)

    @cached_property
    def runs(self) -> BoolArray:
        """(jobs,) whether there is a pool that it can run in."""
        return np.asarray(((self.rates > 0) & (self.gpus >= self.sizes[:, None])).any(axis=1))

    def without(self, job: int) -> Division:
        """The same without one job."""
        keep = np.delete(np.arange(self.n_jobs), job)
        return Division(self.rates[keep], self.gpus, self.sizes[keep], self.weights[keep])

    def alike(self) -> Division:
        """The same for those who know no rates: all pools count as one."""
        return replace(self, rates=np.ones_like(self.rates), pairs=(), together=None)


@dataclass(frozen=True, eq=False)
class Shares:
    """What each job is owed."""

    share: FloatArray  # (jobs, pools) of its time
    rate: FloatArray  # (jobs,) what it does in a second, by that
    value: float  # of the objective
    note: str = ""  # what could not be had, and what is done instead
    paired: FloatArray = field(default_factory=lambda: np.zeros(0))  # (pairs, pools) of the time of both


class Alike(NamedTuple):
    """Jobs that are equal in all that counts."""

    first: IntArray  # (classes,) one of each
    of: IntArray  # (jobs,)
    many: FloatArray  # (classes,) how many


def alone(n: int) -> Alike:
    """Every job for itself."""
    every = np.arange(n)
    return Alike(every, every, np.ones(n))


def equals(division: Division, *columns: FloatArray | IntArray) -> Alike:
    """Jobs that are equal in rates, sizes and these; who may share with whom is part of it."""
    if division.pairs:
        return alone(division.n_jobs)
    kinds = () if division.together is None else (division.together.kind,)
    return classes(division.rates, division.sizes, *columns, *kinds)


def classes(*columns: FloatArray | IntArray) -> Alike:
    """Rows of these columns that are the same."""
    rows = np.column_stack(columns).astype(float)
    # sorting numbers is ten times as fast as sorting rows: so by a mixture of each row, and then proven
    mixed = rows @ np.sqrt(np.arange(2, rows.shape[1] + 2, dtype=float) + 0.37)
    _, first, of, count = np.unique(mixed, return_index=True, return_inverse=True, return_counts=True)
    if not (rows[first][of] == rows).all():
        _, first, of, count = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return Alike(first, of.reshape(-1), count.astype(float))
