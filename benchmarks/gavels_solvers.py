"""Gavel's objectives as its own code hands them to a solver: cvxpy and ECOS. In: a Division. Out: the objective.

Neither is a dependency: who has them (`pip install cvxpy ecos`) sees what they take for the same problems. Equal jobs
are not merged, as Gavel does not merge them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from pal_slurm.policy.entitlement.division import Division


def cvxpy_with_ecos() -> ModuleType | None:
    try:
        cvxpy = import_module("cvxpy")
    except ImportError:
        return None
    return cvxpy if "ECOS" in cvxpy.installed_solvers() else None


class GavelsSolvers:
    def __init__(self, cp: ModuleType) -> None:
        self._cp: Any = cp

    def named(self, name: str) -> Callable[[Division], float] | None:
        """None: this one is not set beside ours."""
        known = {
            "max-min": self.max_min,
            "finish-time, all new": self.finish_time,
            "max-min, any two may share": self.max_min_of_pairs,
        }
        return known.get(name)

    def max_min(self, asked: Division) -> float:
        """The least of all (rate over that of an equal share)."""
        cp, n = self._cp, asked.n_jobs
        share = cp.Variable(asked.rates.shape)
        of_equal = asked.rates / asked.equal[:, None] * asked.sizes[:, None] / asked.weights[:, None]
        least = cp.min(cp.sum(cp.multiply(of_equal, share), axis=1))
        return self._solved(cp.Maximize(least), self._possible(share, asked.sizes, np.eye(n), asked))

    def finish_time(self, asked: Division) -> float:
        """The worst (age + rest / rate) over the same by itself: a cone for each job."""
        cp = self._cp
        share = cp.Variable(asked.rates.shape)
        steps, age, n = asked.needs("steps"), np.zeros(asked.n_jobs), asked.n_jobs
        alone = np.minimum(asked.gpus[None, :] / (n * asked.sizes[:, None]), 1.0)
        alone /= np.maximum(alone.sum(axis=1, keepdims=True), 1.0)
        by_itself = steps / (asked.rates * alone).sum(axis=1)
        rate = cp.sum(cp.multiply(asked.rates, share), axis=1)
        worst = cp.max(cp.multiply(age + cp.multiply(steps, cp.inv_pos(rate)), 1.0 / by_itself))
        return self._solved(cp.Minimize(worst), self._possible(share, asked.sizes, np.eye(n), asked))

    def max_min_of_pairs(self, asked: Division) -> float:
        """A row for each job and for each two of one size."""
        cp, n = self._cp, asked.n_jobs
        assert asked.together is not None
        one, other = np.triu_indices(n, 1)
        alike = asked.sizes[one] == asked.sizes[other]
        one, other = one[alike], other[alike]
        kind, beside = asked.together
        share = cp.Variable((n + len(one), len(asked.gpus)))
        within = np.zeros((n, n + len(one)))  # which rows each job is part of
        within[:, :n] = np.eye(n)
        within[one, n + np.arange(len(one))] = within[other, n + np.arange(len(one))] = 1.0
        terms = []
        for job in range(n):
            rows = np.flatnonzero(within[job])
            pairs = rows[rows >= n] - n
            with_whom = np.where(one[pairs] == job, other[pairs], one[pairs])
            rates = np.vstack((asked.rates[job], beside[kind[job], kind[with_whom]]))
            weight = asked.sizes[job] / asked.equal[job] / asked.weights[job]
            order = np.concatenate(([job], rows[rows >= n]))
            terms.append(cp.sum(cp.multiply(rates * weight, share[order])))
        sizes = np.concatenate((asked.sizes, asked.sizes[one]))
        return self._solved(cp.Maximize(cp.minimum(*terms)), self._possible(share, sizes, within, asked))

    def _possible(self, share: Any, sizes: Any, within: Any, asked: Division) -> list[Any]:
        cp = self._cp
        return [share >= 0, cp.sum(cp.multiply(sizes[:, None], share), axis=0) <= asked.gpus,
                cp.sum(within @ share, axis=1) <= 1]  # fmt: skip

    def _solved(self, aim: Any, constraints: list[Any]) -> float:
        cp = self._cp
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is less exact than asked: the value is compared
            return float(cp.Problem(aim, constraints).solve(solver=cp.ECOS))
