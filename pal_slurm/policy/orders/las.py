"""`las`: least attained service: who has run the shortest so far, counted in seconds, not in GPU seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders

NEVER_RAN = Progress()


class LeastAttained:
    def sort(self, jobs: Sequence[Job], progress: Mapping[int, Progress]) -> list[Job]:
        return sorted(jobs, key=lambda job: (progress.get(job.id, NEVER_RAN).attained_s, job.submit, job.id))


orders.register("las", lambda _: LeastAttained())
