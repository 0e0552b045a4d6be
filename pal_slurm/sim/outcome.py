"""What a simulated run came to. In: when each job started and ended. Out: the figures that tables and JSON show.

Definitions, used everywhere: JCT = end - submission. Makespan = last end - first submission, of the tracked jobs.
Utilisation = GPU-seconds held, by whatever job, within the makespan's window, over GPUs x makespan (so a policy that
ends sooner is measured over a shorter window).
Size class = by the GPUs that a job has: 1, 2-4, 5-8, 9-16, more than 16.
Slowdown = JCT over the run time on median GPUs of the model that is best for the job.
A move = a running job is put on other GPUs. A restart = a job that was stopped starts again later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIZES: Mapping[str, tuple[int, float]] = {  # GPUs of a job, at least and at most
    "1": (1, 1),
    "2-4": (2, 4),
    "5-8": (5, 8),
    "9-16": (9, 16),
    ">16": (17, np.inf),
}


class OfSize(NamedTuple):
    """The jobs of one size class."""

    jobs: float  # a mean, where there are several seeds
    avg_jct_s: float
    p99_jct_s: float


@dataclass(slots=True)
class Timeline:
    """Queue length and GPUs in use after each event."""

    time: list[float] = field(default_factory=list)
    queued: list[int] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)

    def held_before(self, moment: float) -> float:
        """GPU-seconds."""
        times = np.minimum(np.array([*self.time, moment]), moment)
        return float((np.array(self.busy, dtype=np.float64) * np.diff(times)).sum())


@dataclass(frozen=True, slots=True)
class TraceOutcome:
    """One policy on one trace with one seed."""

    policy: str
    job_ids: NDArray[np.int64]  # tracked jobs
    submit_s: NDArray[np.float64]
    start_s: NDArray[np.float64]  # of the first start
    end_s: NDArray[np.float64]
    ideal_s: NDArray[np.float64]  # on median GPUs of the best model
    gpus: NDArray[np.int64]  # that each has
    gpu_seconds: float  # held by any job until the last tracked job ended
    n_gpus: int
    shared_gpu_seconds: float  # of those, with two jobs on the GPU
    moves: int
    restarts: int
    starts_per_job: float
    comm_s: float  # mean over tracked jobs
    cpu_s: float
    timeline: Timeline

    @property
    def jct_s(self) -> NDArray[np.float64]:
        return self.end_s - self.submit_s

    @property
    def avg_jct_s(self) -> float:
        return float(self.jct_s.mean())

    @property
    def makespan_s(self) -> float:
        return float(self.end_s.max() - self.submit_s.min())

    @property
    def utilization(self) -> float:
        held = self.gpu_seconds - self.timeline.held_before(float(self.submit_s.min()))
        return held / (self.n_gpus * self.makespan_s) if self.makespan_s else 0.0

    def sizes(self) -> dict[str, OfSize]:
        """By size class; those without jobs are left out."""
        jct, found = self.jct_s, {}
        for name, (least, most) in SIZES.items():
            mine = jct[(self.gpus >= least) & (self.gpus <= most)]
            if mine.size:
                found[name] = OfSize(mine.size, float(mine.mean()), float(np.percentile(mine, 99)))
        return found

    def figures(self) -> Mapping[str, float]:
        """The numbers of the JSON, by name."""
        return {
            "jobs": self.job_ids.size,
            "avg_jct_s": self.avg_jct_s,
            "median_jct_s": float(np.median(self.jct_s)),
            "p99_jct_s": float(np.percentile(self.jct_s, 99)),
            "makespan_s": self.makespan_s,
            "p99_slowdown": float(np.percentile(self.jct_s / self.ideal_s, 99)),
            "utilization": self.utilization,
            "shared": self.shared_gpu_seconds / self.gpu_seconds if self.gpu_seconds else 0.0,
            "moves": self.moves,
            "restarts": self.restarts,
            "starts_per_job": self.starts_per_job,
            "restarts_per_job": self.starts_per_job - 1.0,
            "comm_s": self.comm_s,
            "cpu_s": self.cpu_s,
        }


DEFINITIONS: Mapping[str, str] = {
    "jobs": "tracked jobs that ended",
    "avg_jct_s": "mean of end - submission over the tracked jobs, in seconds",
    "median_jct_s": "median of end - submission, in seconds",
    "p99_jct_s": "99th percentile of end - submission, linear between ranks, in seconds",
    "makespan_s": "last end - first submission of the tracked jobs, in seconds",
    "p99_slowdown": "99th percentile of (end - submission) over the run time on median GPUs of the best model",
    "utilization": "GPU-seconds held by any job within the window of the makespan, over GPUs x makespan",
    "shared": "share of the GPU-seconds held in which two jobs had the same GPU",
    "moves": "times that a running job was put on other GPUs",
    "restarts": "times that a stopped job started again",
    "starts_per_job": "starts of the tracked jobs, restarts and moves among them, over their number",
    "restarts_per_job": "the same without first starts",
    "comm_s": "mean of the seconds that a tracked job lost by the span of its GPUs",
    "sizes": "by the GPUs that a job has: jobs, mean and 99th percentile of end - submission; empty classes left out",
    "cpu_s": "processor seconds that the simulator itself used for the run",
}
