"""What Slurm itself would take. In: a job, the floor. Out: the placement that Slurm's first fit gives, or None.

Lowest nodes first, on each the lowest free devices. Used to tell what Slurm's own choice would have cost, and to count
jobs that we don't place as what they will probably take.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.model import BoolArray, IntArray, Job, Placement
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.freegpus import slots_of
from pal_slurm.policy.needs import Area, Need


def first_fit(job: Job, floor: Floor, need: Need | None = None) -> Placement | None:
    """The first partition in which it fits, on as few nodes as it may have. `need`: of its kind, where it is known."""
    if job.required_nodes or job.exclusive or (job.shape and job.shape.shares_cpus):
        need = floor.needs.guess(job)
    elif need is None:
        need = floor.needs.of(job) or floor.needs.guess(job)
    found = None if need in floor.nowhere else _first(job, floor, need)
    if found is None and floor.needs.partly:
        found = _first(job, floor, floor.needs.guess(job))
    return found


def _first(job: Job, floor: Floor, need: Need) -> Placement | None:
    for area in need.areas:
        found = _whole_nodes(floor, need, area) if job.exclusive else _even(floor, need, area)
        if found is None and not job.exclusive and need.shape.gpus is not None and need.shape.max_nodes > 1:
            found = _uneven(floor, need, area)
        if found is not None:
            return found
    floor.nowhere.add(need)
    return None


def _even(floor: Floor, need: Need, area: Area) -> Placement | None:
    for nodes, gpus, cpus, mem_mb in need.ways:
        if nodes == 1:
            enough = floor.n_free >= gpus
            row = int(enough.argmax())
            if not enough[row]:
                continue
            allowed = area.mask is None or area.mask[row]
            if allowed and floor.has_room(row, gpus, cpus, mem_mb):
                return _lowest(floor, [row], [gpus], area)
        rows = floor.room(area.mask, gpus, cpus, mem_mb).nonzero()[0][:nodes]
        if len(rows) == nodes:
            return _lowest(floor, rows.tolist(), [gpus] * nodes, area)
    return None


def _uneven(floor: Floor, need: Need, area: Area) -> Placement | None:
    """Slurm splits a total as it comes: as much as there is on the first nodes, at least one on each."""
    shape = need.shape
    total = shape.least_gpus
    rows = floor.room(area.mask, 1, shape.cpus_per_node, shape.mem_per_node_mb).nonzero()[0]
    free = floor.open_gpus()
    roomiest = rows[np.argsort(-free[rows], kind="stable")]
    for order in (rows, roomiest):
        counts = _share(free[order[: shape.max_nodes]], total, shape.min_nodes)
        if counts is not None:
            return _lowest(floor, order[: len(counts)].tolist(), counts, area)
    return None


def _share(free: IntArray, total: int, least_nodes: int) -> list[int] | None:
    counts: list[int] = []
    for available in free.tolist():
        still_due = max(0, least_nodes - len(counts) - 1)
        share = min(available, total - sum(counts) - still_due)
        if share <= 0:
            break
        counts.append(share)
    return counts if sum(counts) == total and len(counts) >= least_nodes else None


def _whole_nodes(floor: Floor, need: Need, area: Area) -> Placement | None:
    shape, cluster = need.shape, floor.cluster
    idle: BoolArray = (floor.open_gpus() == cluster.gpus_per_node) & (floor.cpus_free >= cluster.cpus)
    if area.mask is not None:
        idle &= area.mask
    idle &= cluster.gpus_per_node >= (shape.gpus_per_node or 1)
    for row, (_, cpus, mem_mb) in floor.kept.items():  # all of a node, or nothing of it, is kept for others
        idle[row] &= cpus >= cluster.cpus[row] and mem_mb >= cluster.mem_mb[row]
    rows = idle.nonzero()[0]
    have = np.cumsum(cluster.gpus_per_node[rows])
    enough = np.flatnonzero(have >= shape.least_gpus)
    if not len(enough):
        return None
    nodes = max(int(enough[0]) + 1, shape.min_nodes)
    if nodes > shape.max_nodes or nodes > len(rows):
        return None
    taken = rows[:nodes].tolist()
    return _lowest(floor, taken, cluster.gpus_per_node[taken].tolist(), area)


def _lowest(floor: Floor, rows: list[int], counts: list[int], area: Area) -> Placement:
    names = floor.cluster.node_names
    gpus = tuple([slots_of(floor.masks[row])[:n] for row, n in zip(rows, counts, strict=True)])
    return Placement(tuple(names[row] for row in rows), gpus, False, area.partition)
