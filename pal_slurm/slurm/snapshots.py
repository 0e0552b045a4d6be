"""One look at Slurm, of what a backend read. In: records of nodes and reservations, jobs. Out: Snapshot."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pal_slurm.model import Job, JobState, Reservation, Snapshot, over
from pal_slurm.slurm.nodes import Machine, PartitionRecord, SiteWords, to_cluster, to_reservation
from pal_slurm.slurm.records import in_whole_nodes
from pal_slurm.slurm.topology import in_blocks

_WORD = re.compile(r"[A-Za-z0-9_.:=/+-]+")  # of a feature expression


def to_snapshot(
    machine: Machine, jobs: Iterable[Job], site: SiteWords, unread: Sequence[str] = (), too_long: Sequence[str] = ()
) -> Snapshot:
    reservations = tuple(map(to_reservation, machine.reservations))
    whole = {partition.name for partition in machine.partitions if partition.exclusive}
    jobs = [in_whole_nodes(job, whole) for job in jobs] if whole else list(jobs)
    jobs = list(_oversubscribing(jobs, machine.partitions))
    jobs = in_tiers(_left_to_slurm(jobs, machine, reservations), machine.partitions)
    pending = [job for job in jobs if job.state is JobState.PENDING]
    running = [job for job in jobs if job.state is JobState.RUNNING]
    blocks = machine.topology
    site = site if site.levels else replace(site, levels=blocks.levels)
    cluster = to_cluster(machine.nodes, machine.partitions, reservations, site, machine.taken, _held(running))
    return Snapshot(
        taken=machine.taken,
        cluster=replace(cluster, blocks=in_blocks(cluster.node_names, blocks)) if blocks.sizes else cluster,
        pending=tuple(sorted(pending, key=lambda job: job.order)),
        running=tuple(running),
        reservations=reservations,
        ended={job.id: job.end for job in jobs if job.state is JobState.OTHER and job.end},
        over=over(jobs),
        dropped_hints=sum(job.hint.dropped for job in (*pending, *running)),
        unread=tuple(unread),
        too_long=tuple(too_long),
    )


def _oversubscribing(jobs: Iterable[Job], partitions: Iterable[PartitionRecord]) -> Iterator[Job]:
    """Each says whether it may have CPUs that others have: as its partitions have it, and where these ask it too."""
    kinds = {partition.name: partition.oversubscribed for partition in partitions if partition.oversubscribed}
    for job in jobs:
        shape = job.shape
        if shape is None or not (kinds or shape.shares_cpus):
            yield job
            continue
        found = {kinds.get(name, "") for name in job.partitions}
        may = "FORCE" in found or ("YES" in found and shape.shares_cpus)
        yield job if may == shape.shares_cpus else replace(job, shape=replace(shape, shares_cpus=may))


def _left_to_slurm(jobs: list[Job], machine: Machine, reservations: Sequence[Reservation]) -> list[Job]:
    """Who may share its node with some others only, is drawn into a reservation that it did not ask for, or names a
    feature for which Slurm reboots a node."""
    by_user = {partition.name for partition in machine.partitions if partition.by_user}
    magnets = [r for r in reservations if "MAGNETIC" in r.flags]
    changeable = _changeable(machine)
    if not by_user and not magnets and not changeable:
        return jobs

    def is_slurms(job: Job) -> bool:
        drawn = job.pending and any(reservation.draws(job, machine.taken) for reservation in magnets)
        reboots = bool(job.features and changeable) and not changeable.isdisjoint(_WORD.findall(job.features))
        return job.lease is not None and (drawn or reboots or not by_user.isdisjoint(job.partitions))

    return [replace(job, slurms=True) if is_slurms(job) else job for job in jobs]


def _changeable(machine: Machine) -> set[str]:
    """Features that some node has not, and would have after a reboot."""
    differ = (node for node in machine.nodes if node.available and node.available != node.features)
    return {word for node in differ for word in set(node.available.split(",")) - set(node.features.split(","))}


def in_tiers(jobs: list[Job], partitions: Iterable[PartitionRecord]) -> list[Job]:
    """Each with the highest tier of its partitions."""
    tiers = {partition.name: partition.rule.tier for partition in partitions}
    if set(tiers.values()) <= {1}:
        return jobs
    highest = {names: max((tiers.get(name, 1) for name in names), default=1) for names in {j.partitions for j in jobs}}
    return [job if highest[job.partitions] == job.tier else replace(job, tier=highest[job.partitions]) for job in jobs]


def _held(running: Iterable[Job]) -> dict[str, set[int]]:
    """By node; a node whose GPUs have no types tells how many of them are held, and not which."""
    held: dict[str, set[int]] = defaultdict(set)
    for job in running:
        for node, gpus in zip(job.nodes, job.gpus, strict=True):
            held[node].update(gpus)
    return held
