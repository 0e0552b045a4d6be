"""`las`: least attained service: who has run the shortest so far, counted in seconds, not in GPU seconds."""

from __future__ import annotations

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders

NEVER_RAN = Progress()


class LeastAttained:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return ((progress or NEVER_RAN).attained_s, job.submit, job.id)


orders.register("las", lambda _: LeastAttained())
