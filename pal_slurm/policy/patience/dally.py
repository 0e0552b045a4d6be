"""`dally(LEASE,H,RACK,CLUSTER)`: delay scheduling with timers tuned by past waits, as Dally's author has it.

A node is taken at once, a rack after T_rack leases of waiting, anything after T_nw. What jobs of exactly so many GPUs
waited for a node in the last H leases tunes T_rack, what they waited for a rack T_nw: the mean and twice the standard
deviation, at least RACK and CLUSTER leases, at most 0.8 H and H. Waits under one lease don't count.

For comparison: the longer jobs have waited, the longer they will, and nothing asks whether the narrower span is worth
it. `value` is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pal_slurm.errors import ConfigError
from pal_slurm.model import Job, Reason, Tier
from pal_slurm.policy.seams import Habits, Lessons, Offer, Settled, Wait, patiences

MOST_ROWS = 50_000  # of history; the oldest go first


@dataclass(frozen=True, slots=True)
class Timers:
    """In leases."""

    rack: int
    cluster: int


class Dally:
    """Lessons are rows of (tier, GPUs, when, leases waited)."""

    name = "dally"
    habits = Habits(by_tier=True, since_submit=True, changes=True)

    def __init__(self, lease_s: int, window: int, least_rack: int, least_cluster: int) -> None:
        if lease_s < 1 or window < 1:
            raise ConfigError(f"patience dally({lease_s},{window}): a lease has a length, and a history too")
        self.lease_s, self._window = float(lease_s), window
        self._least_rack, self._least_cluster = least_rack, least_cluster

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        if offer.tier <= max(Tier.NODE, offer.narrowest):
            return None
        timers = self.tuned(offer.gpus, offer.lessons)
        leases = timers.rack if offer.tier is Tier.RACK else timers.cluster
        if offer.waited_s >= leases * self.lease_s:
            return None
        return Wait(Reason.BETTER_SPAN_SOON, leases * self.lease_s)

    def tuned(self, gpus: int, lessons: Lessons) -> Timers:
        lessons = tuple(row for row in lessons if len(row) == 4)
        node = [row[3] for row in lessons if row[:2] == (Tier.NODE, gpus)]
        rack = [row[3] for row in lessons if row[:2] == (Tier.RACK, gpus)]
        return Timers(
            min(math.ceil(0.8 * self._window), max(self._least_rack, _usual(node))),
            min(self._window, max(self._least_cluster, _usual(rack))),
        )

    def learns(self, lessons: Lessons, settled: Sequence[Settled]) -> Lessons:
        """One GPU is always a node's: its waits are nobody's timers."""
        waits = [(offer.tier, offer.gpus, (now - job.submit) / self.lease_s) for job, offer, now, _ in settled]
        return self.noted(lessons, waits, settled[-1].now)

    def noted(self, lessons: Lessons, waits: Iterable[tuple[Tier, int, float]], now: float) -> Lessons:
        """`waits`: the span that a job took, its GPUs, and how many leases it had waited."""
        rows = [row for row in lessons if len(row) == 4]
        for tier, gpus, waited in waits:
            if waited >= 1.0 and gpus > 1 and tier is not Tier.CLUSTER:
                rows.append((float(tier), float(gpus), float(now), waited))
        oldest = now - self._window * self.lease_s
        kept = [row for row in rows if row[2] >= oldest][-MOST_ROWS:]
        return tuple(kept) if kept != list(lessons) else lessons


def _usual(waits: Sequence[float]) -> int:
    """The mean and two standard deviations, in whole leases; 1 where nothing is known."""
    if not waits:
        return 1
    mean = math.fsum(waits) / len(waits)
    return math.ceil(mean + 2 * math.sqrt(math.fsum((w - mean) ** 2 for w in waits) / len(waits)))


patiences.register("dally", Dally, (3600, 24, 6, 12))
