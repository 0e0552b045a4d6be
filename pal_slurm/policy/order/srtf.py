"""`srtf`: shortest remaining time first; where nobody knows it, the time limit stands in, and no limit comes last."""

from __future__ import annotations

import math

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders


class ShortestRemaining:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return (_remaining(job, progress), job.submit, job.id)


def _remaining(job: Job, progress: Progress | None) -> float:
    if progress is not None and progress.remaining_s is not None:
        return progress.remaining_s
    return math.inf if job.time_limit_s is None else float(job.time_limit_s)


orders.register("srtf", lambda _: ShortestRemaining())
