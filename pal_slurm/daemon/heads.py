"""Nobody starves behind jobs that we don't lease (P5). In: reservations of plans. Out: heads to let go plain.

A leased job has no reservation of Slurm's. When jobs that are not ours (CPU jobs on GPU nodes, say) keep the head of
the queue waiting past the start that was planned for it, it is released plain: Slurm's own backfill then reserves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from pal_slurm.daemon.leases import is_leased
from pal_slurm.model import Snapshot
from pal_slurm.policy.backfill import Reserved

GRACE_S = 60.0
NO_PLAN_S = 600.0  # a head whose start nobody can plan (running jobs without limit) is let go after this


@dataclass
class HeadWatch:
    """Remembers since when each job heads its queue, and the first start that was planned for it."""

    grace_s: float = GRACE_S
    no_plan_s: float = NO_PLAN_S
    _until: dict[int, float] = field(default_factory=dict)  # job -> when it is overdue

    def look(self, reserved: Iterable[Reserved], snapshot: Snapshot) -> None:
        """After a plan: the reservations name the heads."""
        ours = {job.id for job in snapshot.pending if is_leased(job, snapshot.taken)}
        self._until = {
            r.job: self._until.get(r.job, self._limit(r.start, snapshot.taken)) for r in reserved if r.job in ours
        }

    def overdue(self, now: float) -> frozenset[int]:
        return frozenset(job for job, until in self._until.items() if now > until)

    def _limit(self, start: float, now: float) -> float:
        return now + self.no_plan_s if math.isinf(start) else max(start, now) + self.grace_s
