"""`slurm`: the order that Slurm itself has: the partition's tier, then priority, submit time and id."""

from __future__ import annotations

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders


class SlurmOrder:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return job.order


orders.register("slurm", lambda _: SlurmOrder())
