"""Jobs that say pal:same. In: a snapshot, what jobs got so far. Out: the same with the model that each is held to.

It counts as a GRES type that its user named: plan, guard and mover keep to it. Where no GPU of that model is up, it is
held to it for a bounded time only: a model may never come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pal_slurm.model import Cluster, Job, Snapshot
from pal_slurm.policy.pools.billing import is_up
from pal_slurm.store import JobOutcome


def held_to_models(snapshot: Snapshot, got: Callable[[Sequence[int]], Sequence[JobOutcome]], wait_s: float) -> Snapshot:
    """`got`: the starts of these jobs, the first one first; asked once, about jobs that wait for another run.

    `wait_s`: most that one waits for a model none of whose GPUs is up.
    """
    cluster = snapshot.cluster
    if len(cluster.models) < 2:
        return snapshot
    again = [job.id for job in snapshot.pending if _says_same(job) and job.restarts]
    runs: dict[int, list[JobOutcome]] = {}
    for run in got(again) if again else ():
        runs.setdefault(run.job, []).append(run)
    waited = {job.id for job in snapshot.pending if snapshot.taken - (job.since or job.submit) >= wait_s}
    pending = tuple(
        [_waiting(job, cluster, _first(job, runs.get(job.id, ())), job.id in waited) for job in snapshot.pending]
    )
    running = tuple([_running(job, cluster) if _says_same(job) else job for job in snapshot.running])
    return replace(snapshot, pending=pending, running=running)


def _says_same(job: Job) -> bool:
    return job.hint.same and job.gpu_job and not job.types


def _first(job: Job, runs: Sequence[JobOutcome]) -> JobOutcome | None:
    """Of the runs that it had. Slurm gives one that it requeued a new submit time; and an id was another job's once."""
    known = [run for run in runs if run.submit == job.submit]
    before = [run for run in runs if run.start <= job.submit and run.user and run.user == job.user]
    return next(iter(known or before[-job.restarts :]), None)


def _waiting(job: Job, cluster: Cluster, run: JobOutcome | None, waited: bool) -> Job:
    if run is None:
        return job
    held = _held(job, cluster, run.nodes, run.gpus)
    return job if waited and not is_up(held, cluster) else held


def _running(job: Job, cluster: Cluster) -> Job:
    return _held(job, cluster, job.nodes, job.holds)


def _held(job: Job, cluster: Cluster, nodes: Sequence[str], gpus: Sequence[Sequence[int]]) -> Job:
    """Of one model; where that is no longer there, or there were several, it is free."""
    rows = [(cluster.node_index.get(node), slots) for node, slots in zip(nodes, gpus, strict=True)]
    models = {
        cluster.models[cluster.gpu_model[row, slot]] for row, slots in rows if row is not None
        for slot in slots if slot < cluster.width and cluster.gpu_exists[row, slot]
    }  # fmt: skip
    return replace(job, types=tuple(models)) if len(models) == 1 else job
