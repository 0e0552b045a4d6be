"""What is known of two jobs on the same GPUs. In: what was told and seen. Out: a factor for each pair, and who is sure.

What nobody measured is estimated from what is known of both beside others (model/likely.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pal_slurm.model import JobKind, Sharers, Sharing
from pal_slurm.model.likely import likely

AGAIN = 20  # new observations after which all is estimated anew


class PairBook:
    def __init__(self, told: Sharing, models: Sequence[str]) -> None:
        self._told, self._models = told, tuple(models)
        self._seen: dict[Sharers, float] = dict(told.beside)
        self._guessed: dict[Sharers, float] = {}
        self._new = 0 if told.beside else -1  # observations since all was estimated; -1: nothing is known at all
        if told.beside:
            self._estimate()

    @property
    def empty(self) -> bool:
        return not self._seen

    def factor(self, one: JobKind, other: JobKind, model: str) -> float:
        pair = Sharers(one, other, model)
        known = self._seen.get(pair)
        return self._guessed.get(pair, math.inf) if known is None else known

    def sure(self, one: JobKind, other: JobKind, model: str) -> bool:
        """Somebody measured it, or saw it."""
        return Sharers(one, other, model) in self._seen and Sharers(other, one, model) in self._seen

    def saw(self, pair: Sharers, factor: float) -> None:
        if pair not in self._told.beside:  # what is told stands
            self._new += pair not in self._seen
            self._seen[pair] = max(factor, 1.0)
        if self._new >= AGAIN:
            self._estimate()

    def _estimate(self) -> None:
        self._new = 0
        self._guessed = likely(self._seen, self._models)
