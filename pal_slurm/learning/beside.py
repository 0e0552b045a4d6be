"""What one user's jobs of one application lose beside others. In: step times together over those alone. Out: UserPair.

Each observation is a stretch of ten minutes. A row never gets surer than `LEAST_VAR`, so that what an application does
today counts for more than what it did last year.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log

from pal_slurm.store import UserPair

LEAST_VAR = 0.02**2
MOST_VAR = 0.5**2  # an observation that is further off says nothing
MOST_LOG = log(100.0)  # nobody measured that

Key = tuple[str, str, str, int, str]


class PairEar:
    def __init__(self, app: str, user: str, known: Mapping[Key, UserPair]) -> None:
        self._app, self._user, self._known = app, user, dict(known)
        self.changed: dict[Key, UserPair] = {}

    def saw(self, other: str, model: str, gpus: int, apart: float, var: float, at: float) -> None:
        """`apart`: log of the step time over that alone; one that can't be is not believed."""
        if not other or var > MOST_VAR or not abs(apart) < MOST_LOG:
            return
        seen = UserPair(self._app, other, model, gpus, self._user, apart, max(var, LEAST_VAR), 1, at)
        before = self._known.get(seen.key)
        self._known[seen.key] = self.changed[seen.key] = seen if before is None else _joined(before, seen)


def _joined(one: UserPair, two: UserPair) -> UserPair:
    a, b = 1.0 / one.var, 1.0 / two.var
    mean = (a * one.mean + b * two.mean) / (a + b)
    return replace(two, mean=mean, var=max(1.0 / (a + b), LEAST_VAR), seen=one.seen + two.seen)
