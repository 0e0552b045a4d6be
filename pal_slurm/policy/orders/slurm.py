"""`slurm`: the order that Slurm itself has: priority, then submit time, then id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders


class SlurmOrder:
    def sort(self, jobs: Sequence[Job], progress: Mapping[int, Progress]) -> list[Job]:
        return sorted(jobs, key=lambda job: (-job.priority, job.submit, job.id))


orders.register("slurm", lambda _: SlurmOrder())
