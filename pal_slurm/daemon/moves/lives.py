"""A job that a move requeued is one job: it keeps the submit time of its first run. In: a queue. Out: the same, so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pal_slurm.model import Job, Move, Snapshot
from pal_slurm.store import MoveRepo

MOST = 10_000  # jobs that are remembered; beyond that those only that are in the queue


@dataclass
class Lives:
    repo: MoveRepo
    _moved: dict[int, tuple[int, int]] = field(default_factory=dict)  # job -> first submit, restarts before
    _newest: int = 0  # operation of the newest move that we know; 0: there never was one
    _sure: bool = False  # that there is no newer one
    _fence: int = 0  # of the leadership as of which we know

    def joined(self, snapshot: Snapshot, fence: int) -> Snapshot:
        """The same, each job by its first submit time."""
        if fence != self._fence:  # another may have led, and moved jobs, since
            self._moved, self._newest, self._sure, self._fence = {}, 0, False, fence
        if not self._sure:
            for move in self.repo.after(self._newest):  # no answer: it is asked again
                if move.submit != self._moved.get(move.job, (None, 0))[0]:
                    self._moved[move.job] = (move.submit, move.restarts)
                self._newest = move.operation
            self._sure = True
            if len(self._moved) > MOST:
                here = {job.id for job in (*snapshot.pending, *snapshot.running)}
                self._moved = {job: life for job, life in self._moved.items() if job in here}
        if not self._moved:
            return snapshot
        pending, running = (tuple(map(self._same, jobs)) for jobs in (snapshot.pending, snapshot.running))
        return replace(snapshot, pending=pending, running=running)

    def doubt(self) -> None:
        """Moves are about to be written: whether they were, the ledger will tell."""
        self._sure = False

    def asked(self, question: Callable[[], list[Move]]) -> list[Move]:
        """Who leads alone begins moves: where there never was one, the ledger need not be asked in each cycle."""
        return [] if self._sure and not self._newest else question()

    def _same(self, job: Job) -> Job:
        life = self._moved.get(job.id)
        if life is None or job.restarts <= life[1] or job.submit <= life[0]:
            return job
        return replace(job, submit=life[0], since=job.submit)
