"""How far users' words move a score. In: what was measured, one vote per user. Out: the least and the most it may be.

A vote is what one user's jobs alone say of a GPU: one per user, however many jobs, names and arrays he has. All numbers
are logarithms of scores.

    one user alone    what was measured, by its own interval and 5 % at most; 10 % where nothing was measured
    two, or the newest three    as far around the middle of their votes: no single one moves it past another's
    below 0.8, above 1.25 (where the nights do not say so themselves): no further than that middle

The middle of two votes is the one that is nearer to what was measured, or what was measured where it lies between them:
of two users who agree it is the lesser claim, of two who don't it is no claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from pal_slurm.scores.learning import PRIOR
from pal_slurm.scores.medians import SIGMAS

ALONE_LEAST, ALONE_MOST = 0.02, 0.05  # what one user may move a score that was measured
UNMEASURED = PRIOR  # and one that was not: by what GPUs are expected to differ anyway
FAR = log(1.25)  # further than this two users have to agree
SURE = 0.08  # standard error of a vote that counts: less than what GPUs are expected to differ by
NEWEST = 3  # users whose votes are held against each other: two who see a change outvote the one who saw none yet


@dataclass(frozen=True, slots=True)
class Anchor:
    """What was measured of a GPU, by nights or an import."""

    mean: float = 0.0
    error: float | None = None  # None: not told
    measured: bool = False

    @property
    def alone(self) -> float:
        """How far one user's word goes."""
        if not self.measured:
            return UNMEASURED
        return ALONE_MOST if self.error is None else min(max(SIGMAS * self.error, ALONE_LEAST), ALONE_MOST)


@dataclass(frozen=True, slots=True)
class Vote:
    mean: float
    var: float
    heard_at: float


def allowed(anchor: Anchor, votes: Sequence[Vote]) -> tuple[float, float]:
    """The least and the most that the score's logarithm may be."""
    middle, alone = _middle(anchor.mean, _counted(votes)), anchor.alone
    low, high = middle - alone, middle + alone
    low = max(low, min(-FAR, middle, anchor.mean - alone))
    high = min(high, max(FAR, middle, anchor.mean + alone))
    return low, high


def _counted(votes: Sequence[Vote]) -> list[float]:
    sure = sorted((vote for vote in votes if vote.var <= SURE**2), key=lambda vote: -vote.heard_at)
    return sorted(vote.mean for vote in sure[:NEWEST])


def _middle(measured: float, means: Sequence[float]) -> float:
    """Of votes in order; one alone says nothing."""
    if len(means) < 2:
        return measured
    low, high = means[(len(means) - 1) // 2], means[len(means) // 2]
    return min(max(measured, low), high)
