"""`water-filling`: max-min, and again among those who can still have more, until nobody can; also by entity.

An entity's weight goes to its jobs that are not done yet: in parts by their own weights (`fair`), or all to the first
(`fifo`). The rates that come of it are the only ones with that fairness, so Pareto efficient.

Who can have no more: a fairness row with a positive dual is tight in every optimum, and the duals sum to 1, so every
round fixes somebody. No program in whole numbers is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pal_slurm.errors import BadInput
from pal_slurm.model import BoolArray, FloatArray, IntArray
from pal_slurm.policy.entitlement.division import Alike, Division, Shares, equals
from pal_slurm.policy.entitlement.level import CommonLevel
from pal_slurm.policy.solving import Lack, NoAnswer, Optimum

TIGHT = 1e-6  # a dual from here on is one; they sum to 1
SLACKS = (1e-9, 1e-7, 1e-5)  # of a floor: what the solver's own tolerance takes


NOTHING = Optimum(np.zeros(0), np.zeros(0), 0.0)


@dataclass(frozen=True, eq=False)
class Entities:
    """Who owns the jobs: by number, as `Division.entity` names them."""

    weights: FloatArray
    inner: tuple[str, ...] = ()  # fair or fifo, each; fair

    def fifo(self, entity: int) -> bool:
        return bool(self.inner) and self.inner[entity] == "fifo"


def water_filling(division: Division) -> Shares:
    return hierarchical(division, None)


def hierarchical(division: Division, entities: Entities | None) -> Shares:
    """Rows of a FIFO entity are in the order of arrival. None: every job stands for itself."""
    filling = _Filling(division, entities)
    least = filling.fill()
    return filling.level.shares(filling.answer, least)


class _Filling:
    def __init__(self, division: Division, entities: Entities | None) -> None:
        self.division, self.entities = division, entities
        self.answer = NOTHING
        if entities is None:
            self.owner: IntArray = np.zeros(division.n_jobs, dtype=np.int64)
            merged = equals(division, division.weights)
        else:
            self.owner = np.asarray(division.needs("entity")).astype(np.int64)
            if division.n_jobs and not 0 <= self.owner.min() <= self.owner.max() < len(entities.weights):
                raise BadInput("A job's entity is none of those that are told.")
            if not np.isfinite(entities.weights).all() or (entities.weights < 0).any():
                raise BadInput("An entity's weight is 0 or more.")
            merged = self._by_entity()
        self.level = CommonLevel(division, merged)
        first = self.level.merged.first
        self.owner = self.owner[first]
        self.own = division.weights[first]
        self.equal, self.sizes = division.equal[first], division.sizes[first]
        self.runs = division.runs[first]

    def _by_entity(self) -> Alike:
        """In a FIFO entity nobody is another's equal."""
        assert self.entities is not None
        n = self.division.n_jobs
        ranks = np.where([self.entities.fifo(e) for e in self.owner], np.arange(n), -1) if n else np.zeros(0)
        return equals(self.division, self.division.weights, self.owner, ranks)

    def fill(self) -> float:
        """The least level, of those who weigh anything."""
        n = len(self.own)
        done = ~self.runs.astype(bool)
        height = np.zeros(n)  # of rate over `equal`, reached so far
        least = None
        for _ in range(n + 1):
            weights = self._weights(done)
            rising = weights > 0
            if least is not None and not rising.any():
                break
            step = np.where(rising, weights / self.sizes, 0.0)
            self.answer = self._raise(step * self.equal, height * self.equal)
            if not rising.any():  # nobody weighs anything
                break
            height = height + step * self.answer.value
            if least is None:
                least = self.answer.value
            duals = np.where(rising, self.answer.duals * step * self.equal, 0.0)
            done = done | (duals > min(TIGHT, duals.max() / 2))
            if self.level.dear:  # every GPU has a price: who has had nothing so far would take from others
                done = done | (height == 0)
        return least or 0.0

    def _raise(self, needs: FloatArray, floors: FloatArray) -> Optimum:
        """From floors that rounding may have put a little too high."""
        for slack in SLACKS:
            try:
                return self.level.solve(needs, floors * (1 - slack))
            except NoAnswer as none:
                if none.why is not Lack.INFEASIBLE:
                    raise
        raise NoAnswer(Lack.LOST)

    def _weights(self, done: BoolArray) -> FloatArray:
        """(classes,) of one job each."""
        own = np.where(done, 0.0, self.own)
        if self.entities is None:
            return own
        out = np.zeros(len(own))
        order = self.level.merged.first
        for e, weight in enumerate(self.entities.weights.tolist()):
            mine = np.flatnonzero((self.owner == e) & (own > 0))
            if not len(mine):
                continue
            if self.entities.fifo(e):
                out[mine[order[mine].argmin()]] = weight
            else:
                out[mine] = weight * own[mine] / (own[mine] * self.level.count[mine]).sum()
        return out
