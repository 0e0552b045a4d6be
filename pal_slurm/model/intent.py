"""A row of the ledger: what we meant to write, recorded before it was written (P3). In: Edit. Out: Intent."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.model.edit import Edit, Outcome
from pal_slurm.model.placement import Decision


@dataclass(frozen=True, slots=True)
class Intent:
    id: int
    submit: int  # with edit.job: one job for ever, also when job ids come round again
    edit: Edit
    fence: int  # the leadership under which it was written
    written_at: float
    outcome: Outcome | None = None  # None: open, nobody knows yet
    said: str = ""
    outcome_at: float | None = None
    decision: Decision | None = None
    passes_main: int = 0  # Slurm's own scheduling passes when it was applied: "did not start" is judged by these
    passes_backfill: int = 0
    closed: bool = False  # nothing is left to watch: the job runs, is gone, or was let go

    @property
    def job_key(self) -> tuple[int, int]:
        return (self.edit.job, self.submit)
