"""What happened to the fleet as a whole. In: the levels of its nights. Out: alerts, which change no score.

A failing cooling plant, a driver or a power cap makes every GPU slower at once: ratios stay what they were, so only the
level of a night against the nights before it can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pal_slurm.model import FloatArray, IntArray

SHIFT = 0.05  # a fleet this much slower or faster than before is worth a look
BEFORE = 14  # nights that a night is held against


@dataclass(frozen=True, slots=True)
class Shift:
    night: int
    factor: float  # 1.08: everything took 8 % longer than in the nights before

    def __str__(self) -> str:
        return f"{abs(self.factor - 1):.1%} {'slower' if self.factor > 1 else 'faster'} than in the nights before"


def newest_shift(night: IntArray, level: FloatArray) -> Shift | None:
    """Whether the newest night's level (log seconds) is far from the median of those before it."""
    if night.size < 2:
        return None
    order = np.argsort(night)
    before = level[order][-1 - BEFORE : -1]
    usual = float(np.median(before))
    scatter = 1.4826 * float(np.median(np.abs(before - usual)))
    off = float(level[order][-1]) - usual
    if abs(off) <= max(SHIFT, 4 * scatter):
        return None
    return Shift(int(night[order][-1]), float(np.exp(off)))
