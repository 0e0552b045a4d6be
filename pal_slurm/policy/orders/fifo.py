"""`fifo`: first submitted, first considered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders


class Fifo:
    def sort(self, jobs: Sequence[Job], progress: Mapping[int, Progress]) -> list[Job]:
        return sorted(jobs, key=lambda job: (job.submit, job.id))


orders.register("fifo", lambda _: Fifo())
