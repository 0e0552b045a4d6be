"""Who runs. In: claims in the order, the pools' GPUs, who chooses by price. Out: the claims that shall run.

The order is walked while GPUs suffice, also those of the pools that a job may have at all. Who can't be moved and runs,
runs on. Who can't be moved and waits takes a pool by its price, or none; then it may have that and what costs the same.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from pal_slurm.policy.pools.claims import PoolClaim
from pal_slurm.policy.pools.pricing import Chooser

LEVEL_S = 1800.0  # of a GPU's work: the first level of `las`
LEVELS = (*(LEVEL_S * 4.0**i for i in range(1, 12)), math.inf)


def level(attained_s: float) -> int:
    """Least attained service in steps of four: within one, who runs goes on. In GPU seconds on the job's best GPUs."""
    return bisect_right(LEVELS, attained_s)


class Room:
    """GPUs left, also for jobs that may have some of the pools only."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self.every = (1 << len(gpus)) - 1
        self.left = sum(gpus)
        self._union = {u: sum(g for j, g in enumerate(gpus) if u >> j & 1) for u in range(1, self.every)}

    def takes(self, claim: PoolClaim, mask: int) -> bool:
        size = claim.gpus
        if size > self.left:
            return False
        if mask != self.every:
            inside = [u for u in self._union if mask & ~u == 0]
            if any(self._union[u] < size for u in inside):
                return False
            for u in inside:
                self._union[u] -= size
        self.left -= size
        return True


def choose(claims: Sequence[PoolClaim], gpus: Sequence[int], chooser: Chooser | None) -> list[PoolClaim]:
    """`claims` in the order, those that run and can't be moved among them. No chooser: all may be moved."""
    room = Room(gpus)
    free = list(gpus)  # of those who can't be moved
    chosen: list[PoolClaim] = []
    for claim in claims:
        if claim.pool >= 0 and not claim.movable:
            room.takes(claim, 1 << claim.pool)
            free[claim.pool] -= claim.gpus
            chosen.append(claim)
    for claim in [claim for claim in claims if not claim.fixed] if chosen else claims:
        if not room.left:
            break
        mask = _mask(claim.rates)
        if not mask:  # no pool will ever hold it
            continue
        if claim.movable or chooser is None:
            if mask == room.every and claim.gpus <= room.left:  # most do: the same in short
                room.left -= claim.gpus
                chosen.append(claim)
            elif room.takes(claim, mask):
                chosen.append(claim)
        elif claim.gpus <= room.left:
            pool, only = chooser.takes(claim.rates, claim.gpus, free)
            if pool >= 0 and room.takes(claim, 1 << pool):
                free[pool] -= claim.gpus
                chosen.append(claim._replace(rates=only))
    return chosen


@lru_cache(maxsize=4096)
def _mask(rates: tuple[float, ...]) -> int:
    """A bit for each pool that it may have."""
    return sum(1 << j for j, rate in enumerate(rates) if rate)
