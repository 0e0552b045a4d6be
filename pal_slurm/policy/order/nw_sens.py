"""`nw-sens`: who was slowed most by where it ran comes first, after all who never ran (Dally's network sensitivity).

The share of its ideal speed that a job had while it held GPUs. Ties: less time on GPUs, submission, id.
"""

from __future__ import annotations

from pal_slurm.model import Job
from pal_slurm.policy.seams import Progress, orders


class NetworkSensitive:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        attained = progress.attained_s if progress is not None else 0.0
        speed = progress.done_s / attained if progress is not None and attained > 0.0 else 0.0
        return (speed, attained, job.submit, job.id)


orders.register("nw-sens", lambda _: NetworkSensitive())
