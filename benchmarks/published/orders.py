"""Orders that change while jobs run, for schedulers that stop running jobs; `fifo` and `slurm` are those of pald.

`las`: least attained service first, in seconds and not in GPU seconds. `srtf`: shortest remaining time first; where
nobody knows it, the time limit stands in, and no limit comes last. `nw-sens`: Dally's network sensitivity: jobs that
never ran first, then the job that had the least share of its ideal speed while it held GPUs. Ties: less time on GPUs,
then submission, then id.
"""

from __future__ import annotations

import math

from pal_slurm.errors import ConfigError
from pal_slurm.model import Job
from pal_slurm.policy.seams import Order, Progress
from pal_slurm.policy.seams import orders as of_pald

NEVER_RAN = Progress()


class LeastAttained:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return ((progress or NEVER_RAN).attained_s, job.submit, job.id)


class ShortestRemaining:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return (_remaining(job, progress), job.submit, job.id)


class NetworkSensitive:
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        attained = progress.attained_s if progress is not None else 0.0
        speed = progress.done_s / attained if progress is not None and attained > 0.0 else 0.0
        return (speed, attained, job.submit, job.id)


CHANGING: dict[str, Order] = {"las": LeastAttained(), "srtf": ShortestRemaining(), "nw-sens": NetworkSensitive()}
ORDERS = ("fifo", "slurm", *CHANGING)


def order_named(name: str) -> Order:
    if name not in ORDERS:
        raise ConfigError(f"There is no order {name!r}; choose one of {', '.join(ORDERS)}.")
    return CHANGING.get(name) or of_pald.get(name)


def _remaining(job: Job, progress: Progress | None) -> float:
    if progress is not None and progress.remaining_s is not None:
        return progress.remaining_s
    return math.inf if job.time_limit_s is None else float(job.time_limit_s)
