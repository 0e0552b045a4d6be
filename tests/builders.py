"""Jobs, snapshots and scores for tests. In: what a test is about. Out: the nouns, plain in all else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pal_slurm.model import (
    Cluster,
    Job,
    JobState,
    Lease,
    Request,
    Reservation,
    RunTimes,
    ScoreTable,
    Shape,
    Snapshot,
    Waits,
    homogeneous,
)

NOW = 1_000_000
NODE = homogeneous(1, 4)


def waiting(number: int = 1, gpus: int = 1, /, **facts: Any) -> Job:
    """It waits for Slurm, not for us."""
    made = {"state": JobState.PENDING, "submit": NOW - 100 + number, "user": "u", "shape": Shape(gpus=gpus)}
    return Job(**{"id": number, "gpu_job": True, **made, **facts})


def leased(number: int = 1, gpus: int = 1, /, *, until: int = NOW + 60, **facts: Any) -> Job:
    """It waits for us until then, as job_submit.lua leaves it."""
    lease = Lease(until, facts.get("request", Request()))
    return waiting(number, gpus, **{"eligible": until, "why": Waits.BEGIN, "lease": lease, **facts})


def running(number: int, on: Mapping[str, tuple[int, ...]], end: int | None = None, **facts: Any) -> Job:
    """It holds these slots of these nodes."""
    shape = Shape(gpus=sum(map(len, on.values())), max_nodes=len(on))
    made = {"submit": NOW - 500, "end": end, "nodes": tuple(on), "gpus": tuple(on.values()), "shape": shape}
    return waiting(number, **{"state": JobState.RUNNING, **made, **facts})


def snapshot(*jobs: Job, cluster: Cluster = NODE, now: float = NOW, windows: Sequence[Reservation] = ()) -> Snapshot:
    """What is asked of Slurm in one cycle. The cluster is as given: what runs on it is not taken off."""
    pending = tuple(job for job in jobs if job.pending)
    return Snapshot(now, cluster, pending, tuple(job for job in jobs if not job.pending), tuple(windows))


def usual(of_limits: float) -> RunTimes:
    """All users' jobs run such a share of their limits, which differ."""
    times = RunTimes()
    for number in range(5_000):
        limit_s = 10.0 ** (1 + number % 5)
        times.ended(f"u{number}", "", "", limit_s, of_limits * limit_s)
    return times


def scores(**classes: Sequence[Sequence[float]]) -> ScoreTable:
    """The score of each class per node and slot; each value is a bin of its own."""
    values = np.array(list(classes.values()), dtype=float)
    bins = np.stack([np.unique(of, return_inverse=True)[1].reshape(of.shape) for of in values])
    return ScoreTable(tuple(classes), values, bins, np.ones(values.shape, dtype=np.bool_))
