"""What it costs two jobs to have the same GPUs. In: measured pairs. Out: a factor on the step time of each; 1.0 alone.

Who shares has all of its GPUs together with one other job of the same size: a pair. A pair that nobody has measured
costs without end, so nobody is put there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np


class JobKind(NamedTuple):
    """What sharing depends on: jobs of one kind are equals."""

    app: str
    gpus: int


class Sharers(NamedTuple):
    """One job beside another on GPUs of one model."""

    one: JobKind
    other: JobKind
    model: str


class KnownPairs(Protocol):
    """What is known of pairs."""

    def factor(self, one: JobKind, other: JobKind, model: str) -> float:
        """On the step time of the first beside the second."""

    def sure(self, one: JobKind, other: JobKind, model: str) -> bool:
        """Measured, and not estimated."""


class PairsOfUser(KnownPairs, Protocol):
    def unmeasured(self, one: JobKind, other: JobKind, model: str) -> bool:
        """They are put together so that somebody measures what it costs: one couple at a time."""

    def partners(self, one: JobKind, model: str) -> Collection[JobKind]:
        """Beside whom anything is known of it."""


class PairsByUser(Protocol):
    def of(self, user: str) -> PairsOfUser:
        """As they count for his jobs: nobody else's reports make them wrong (P12)."""


@dataclass(frozen=True, slots=True)
class BothUsers:
    """What two users' books say of a pair: the worse of both, so that neither can talk the other into it."""

    one: PairsOfUser
    other: PairsOfUser

    def factor(self, one: JobKind, other: JobKind, model: str) -> float:
        return max(self.one.factor(one, other, model), self.other.factor(one, other, model))

    def sure(self, one: JobKind, other: JobKind, model: str) -> bool:
        return self.one.sure(one, other, model) and self.other.sure(one, other, model)

    def unmeasured(self, one: JobKind, other: JobKind, model: str) -> bool:
        return self.one.unmeasured(one, other, model) or self.other.unmeasured(one, other, model)


@dataclass(frozen=True)
class Sharing:
    """Factors on the step time of `one`: 1.25 is a quarter longer; infinity: there is no memory for both."""

    beside: Mapping[Sharers, float] = field(default_factory=dict)

    def told_of(self, share: float, seed: int) -> Sharing:
        """Only this share of the pairs, drawn one by one: both directions, each model for itself."""
        if share >= 1.0:
            return self
        pairs = sorted({(*sorted(pair[:2]), pair.model) for pair in self.beside})
        some = np.random.default_rng([seed, 23]).random(len(pairs)) < share
        drawn = {pair for pair, yes in zip(pairs, some.tolist(), strict=True) if yes}
        kept = {p: factor for p, factor in self.beside.items() if (*sorted(p[:2]), p.model) in drawn}
        return Sharing(kept)

    def factor(self, one: JobKind, other: JobKind, model: str) -> float:
        return self.beside.get(Sharers(one, other, model), math.inf)

    def sure(self, one: JobKind, other: JobKind, model: str) -> bool:
        return Sharers(one, other, model) in self.beside and Sharers(other, one, model) in self.beside

    def unmeasured(self, one: JobKind, other: JobKind, model: str) -> bool:
        return False

    def partners(self, one: JobKind, model: str) -> Collection[JobKind]:
        return self._partners.get((one, model), ())

    def of(self, user: str) -> Sharing:
        """What is told counts for everybody."""
        return self

    @cached_property
    def _partners(self) -> Mapping[tuple[JobKind, str], tuple[JobKind, ...]]:
        found: dict[tuple[JobKind, str], tuple[JobKind, ...]] = {}
        for one, other, model in sorted(self.beside):
            found[one, model] = (*found.get((one, model), ()), other)
        return found


NOBODY_SHARES = Sharing()
