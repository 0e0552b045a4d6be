"""One run of a job, as the accounting tells it. In: nothing. Out: PastRun, RunEnd."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RunEnd(StrEnum):
    REQUEUED = "requeued"  # by whomever, or for a lost node: it ran again
    COMPLETED = "completed"
    FAILED = "failed"
    OTHER = "other"  # cancelled, out of time: nothing is said about the work


@dataclass(frozen=True, slots=True)
class PastRun:
    job: int
    user: str
    seconds: float
    end: RunEnd
