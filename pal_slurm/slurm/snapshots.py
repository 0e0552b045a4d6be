"""One look at Slurm, of what a backend read. In: records of nodes and reservations, jobs. Out: Snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pal_slurm.model import Job, JobState, Snapshot
from pal_slurm.slurm.nodes import Machine, SiteWords, to_cluster, to_reservation
from pal_slurm.slurm.records import in_whole_nodes


def to_snapshot(machine: Machine, jobs: Iterable[Job], site: SiteWords, unread: Sequence[str] = ()) -> Snapshot:
    reservations = tuple(map(to_reservation, machine.reservations))
    whole = {partition.name for partition in machine.partitions if partition.exclusive}
    jobs = [in_whole_nodes(job, whole) for job in jobs] if whole else list(jobs)
    pending = [job for job in jobs if job.state is JobState.PENDING]
    running = [job for job in jobs if job.state is JobState.RUNNING]
    site = site if site.levels else replace(site, levels=machine.topology.levels)
    return Snapshot(
        taken=machine.taken,
        cluster=to_cluster(machine.nodes, machine.partitions, reservations, site, machine.taken, _held(running)),
        pending=tuple(sorted(pending, key=lambda job: (-job.priority, job.submit, job.id))),
        running=tuple(running),
        reservations=reservations,
        dropped_hints=sum(job.hint.dropped for job in (*pending, *running)),
        unread=tuple(unread),
    )


def _held(running: Iterable[Job]) -> dict[str, set[int]]:
    """By node; a node whose GPUs have no types tells how many of them are held, and not which."""
    held: dict[str, set[int]] = defaultdict(set)
    for job in running:
        for node, gpus in zip(job.nodes, job.gpus, strict=True):
            held[node].update(gpus)
    return held
