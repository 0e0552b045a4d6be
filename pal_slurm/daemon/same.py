"""Jobs that say pal:same. In: a snapshot, what jobs got so far. Out: the same with the model that each is held to.

It counts as a GRES type that its user named: plan, guard and mover keep to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pal_slurm.model import Cluster, Job, Snapshot
from pal_slurm.store import JobOutcome


def held_to_models(snapshot: Snapshot, got: Callable[[Sequence[int]], Sequence[JobOutcome]]) -> Snapshot:
    """`got`: the starts of these jobs, the first one first; asked once, about jobs that wait for another run."""
    cluster = snapshot.cluster
    if len(cluster.models) < 2:
        return snapshot
    again = [job.id for job in snapshot.pending if _says_same(job) and job.restarts]
    first: dict[tuple[int, int], JobOutcome] = {}
    for run in got(again) if again else ():
        first.setdefault((run.job, run.submit), run)
    pending = tuple([_waiting(job, cluster, first.get((job.id, job.submit))) for job in snapshot.pending])
    running = tuple([_running(job, cluster) if _says_same(job) else job for job in snapshot.running])
    return replace(snapshot, pending=pending, running=running)


def _says_same(job: Job) -> bool:
    return job.hint.same and job.gpu_job and not job.types


def _waiting(job: Job, cluster: Cluster, run: JobOutcome | None) -> Job:
    return job if run is None else _held(job, cluster, run.nodes, run.gpus)


def _running(job: Job, cluster: Cluster) -> Job:
    return _held(job, cluster, job.nodes, job.gpus)


def _held(job: Job, cluster: Cluster, nodes: Sequence[str], gpus: Sequence[Sequence[int]]) -> Job:
    """Of one model; where that is no longer there, or there were several, it is free."""
    rows = [(cluster.node_index.get(node), slots) for node, slots in zip(nodes, gpus, strict=True)]
    models = {
        cluster.models[cluster.gpu_model[row, slot]] for row, slots in rows if row is not None
        for slot in slots if slot < cluster.width and cluster.gpu_exists[row, slot]
    }  # fmt: skip
    return replace(job, types=tuple(models)) if len(models) == 1 else job
