"""Nobody starves behind jobs that we don't lease (P5). In: reservations of plans, rivals. Out: heads to let go plain.

A leased job has no reservation of Slurm's. When jobs that are not ours wait beside the head of the queue, or start
while it waits, it is released plain at once: Slurm's own queue and backfill then reserve for it. So it is when it still
waits past the start that was planned for it, whatever the cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pal_slurm.daemon.leases import is_leased
from pal_slurm.daemon.rivals import Rivals
from pal_slurm.model import Reason, Snapshot
from pal_slurm.policy.backfill import Reserved

GRACE_S = 60.0
NO_PLAN_S = 600.0  # a head whose start nobody can plan (running jobs without limit) is let go after this


@dataclass(frozen=True, slots=True)
class Head:
    since: float
    until: float  # then it is overdue


@dataclass
class HeadWatch:
    """Remembers since when each job heads its queue, and the first start that was planned for it."""

    grace_s: float = GRACE_S
    no_plan_s: float = NO_PLAN_S
    _heads: dict[int, Head] = field(default_factory=dict)

    def look(self, reserved: Iterable[Reserved], snapshot: Snapshot) -> None:
        """After a plan: the reservations name the heads."""
        ours = {job.id for job in snapshot.pending if is_leased(job, snapshot.taken)}
        now = snapshot.taken
        self._heads = {
            r.job: self._heads.get(r.job, Head(now, self._limit(r.start, now))) for r in reserved if r.job in ours
        }

    def let_go(self, snapshot: Snapshot, rivals: Rivals) -> Mapping[int, Reason]:
        """Heads that are not to wait for us any longer, and why."""
        now, found = snapshot.taken, {}
        for job in snapshot.pending if self._heads else ():
            head = self._heads.get(job.id)
            if head is None:
                continue
            if now > head.until:
                found[job.id] = Reason.PAST_PLANNED_START
            elif rivals.about(job, head.since, snapshot.cluster):
                found[job.id] = Reason.OVERTAKEN
        return found

    def _limit(self, start: float, now: float) -> float:
        return now + self.no_plan_s if math.isinf(start) else max(start, now) + self.grace_s
