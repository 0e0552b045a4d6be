"""A job that a move requeued is one job: it keeps the submit time of its first run. In: a queue. Out: the same, so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pal_slurm.model import Job, Move, Snapshot
from pal_slurm.store import MoveRepo


@dataclass
class Lives:
    repo: MoveRepo
    _moved: dict[int, tuple[int, int]] | None = None  # job -> first submit, restarts before; None: the ledger knows
    _fence: int = 0  # of the leadership as of which we know

    def joined(self, snapshot: Snapshot, fence: int) -> Snapshot:
        """The same, each job by its first submit time."""
        if self._moved is None or fence != self._fence:  # another may have led, and moved jobs, since
            moved: dict[int, tuple[int, int]] = {}
            for move in self.repo.since(0.0):  # no answer: it is asked again
                if move.submit != moved.get(move.job, (None, 0))[0]:
                    moved[move.job] = (move.submit, move.restarts)
            self._moved, self._fence = moved, fence
        if not self._moved:
            return snapshot
        pending, running = (tuple(map(self._same, jobs)) for jobs in (snapshot.pending, snapshot.running))
        return replace(snapshot, pending=pending, running=running)

    def doubt(self) -> None:
        """Moves are about to be written: whether they were, the ledger will tell."""
        self._moved = None

    def asked(self, question: Callable[[], list[Move]]) -> list[Move]:
        """Who leads alone begins moves: where there never was one, the ledger need not be asked in each cycle."""
        return [] if self._moved == {} else question()

    def _same(self, job: Job) -> Job:
        life = (self._moved or {}).get(job.id)
        if life is None or job.restarts <= life[1] or job.submit <= life[0]:
            return job
        return replace(job, submit=life[0], since=job.submit)
