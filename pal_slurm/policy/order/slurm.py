"""`slurm`: the order that Slurm itself has: priority, then submit time, then id."""

from __future__ import annotations

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders


class SlurmOrder:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return (-job.priority, job.submit, job.id)


orders.register("slurm", lambda _: SlurmOrder())
