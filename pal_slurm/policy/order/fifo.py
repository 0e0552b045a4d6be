"""`fifo`: first submitted, first considered."""

from __future__ import annotations

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders


class Fifo:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return (job.submit, job.id)


orders.register("fifo", lambda _: Fifo())
