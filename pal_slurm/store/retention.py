"""Forgetting. In: the repositories of one cluster, the time. Out: rows removed, once an hour.

Lease renewals are the bulk of the ledger (up to the write budget, 20 a second) and are worth nothing after a day.
Scores and runs are never forgotten here.
"""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.store.decisions import DecisionRepo
from pal_slurm.store.ledger import Ledger
from pal_slurm.store.outcomes import OutcomeRepo

EVERY_S = 3600.0
RENEWALS_S = 86_400.0


@dataclass
class Retention:
    ledger: Ledger
    decisions: DecisionRepo
    outcomes: OutcomeRepo
    looked_at: float | None = None

    def look(self, now: float, keep_s: float) -> int:
        """Remove what is older than `keep_s`, when an hour has passed since the last time."""
        if self.looked_at is not None and 0.0 <= now - self.looked_at < EVERY_S:
            return 0
        self.looked_at = now
        before = now - keep_s
        removed = self.ledger.prune(max(before, now - RENEWALS_S), before)
        return removed + self.decisions.prune(before) + self.outcomes.prune(before)
