"""What it costs two jobs to have the same GPUs. In: measured pairs. Out: a factor on the step time of each; 1.0 alone.

Who shares has all of its GPUs together with one other job of the same size: a pair. A pair that nobody has measured
costs without end, so nobody is put there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class JobKind(NamedTuple):
    """What sharing depends on: jobs of one kind are equals."""

    app: str
    gpus: int


class Sharers(NamedTuple):
    """One job beside another on GPUs of one model."""

    one: JobKind
    other: JobKind
    model: str


@dataclass(frozen=True, slots=True)
class Sharing:
    """Factors on the step time of `one`: 1.25 is a quarter longer; infinity: there is no memory for both."""

    beside: Mapping[Sharers, float] = field(default_factory=dict)

    def factor(self, one: JobKind, other: JobKind, model: str) -> float:
        return self.beside.get(Sharers(one, other, model), math.inf)


NOBODY_SHARES = Sharing()
