"""Since when each job declines what it is offered. In: a plan's decisions. Out: what the next plan must know of them.

Kept in memory only. A pald that starts anew can't know how long those that it finds waiting have declined, and takes it
for all of their wait: however often it is restarted, it keeps no job longer than its patience.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pal_slurm.model import Decision, Reason, Snapshot

PATIENCE = (Reason.BETTER_GPUS_SOON, Reason.BETTER_SPAN_SOON)


@dataclass
class Declined:
    _since: dict[tuple[int, int], float] | None = None  # None: the first cycle

    def since(self, snapshot: Snapshot) -> dict[int, float]:
        """Job id -> when it first declined; the time runs on while nothing at all is free for it."""
        if self._since is None:
            self._since = {job.key: float(job.submit) for job in snapshot.pending}
        return {job.id: self._since[job.key] for job in snapshot.pending if job.key in self._since}

    def look(self, decisions: Iterable[Decision], snapshot: Snapshot) -> None:
        jobs = {job.id: job for job in snapshot.pending}
        fresh = {jobs[d.job].key for d in decisions if d.reason in PATIENCE and d.job in jobs}
        waiting = {job.key for job in jobs.values()}
        kept = {key: since for key, since in (self._since or {}).items() if key in waiting}
        self._since = {**dict.fromkeys(fresh, snapshot.taken), **kept}
