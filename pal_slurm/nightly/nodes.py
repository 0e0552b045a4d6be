"""Which nodes are idle, and who waits for one of ours. In: a Snapshot, our nodes. Out: node names.

A profile job takes a whole node that nobody uses. As soon as a waiting job could start if some of ours were gone, and
not without that, so many of ours give way. A job that could not start in any case keeps nobody from measuring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from pal_slurm.model import BoolArray, Job, Snapshot, Waits
from pal_slurm.policy.needs import Need, Needs

# They would start if they found room; all others wait for something that is none of our business.
_FOR_ROOM = (Waits.UNSEEN, Waits.ROOM, Waits.TURN, Waits.NODES)


def gpu_nodes(snapshot: Snapshot, partition: str) -> list[str]:
    """Nodes with GPUs, in the partition if one is named."""
    cluster = snapshot.cluster
    mask: BoolArray = np.asarray(cluster.gpu_exists.any(axis=1))
    if partition:
        mask = mask & cluster.partitions.get(partition, np.zeros_like(mask))
    return [cluster.node_names[row] for row in np.flatnonzero(mask)]


def idle(snapshot: Snapshot, minutes: float) -> set[str]:
    """Nodes that nobody uses, that are powered up, and that no reservation takes before a profile job would be over."""
    cluster, end = snapshot.cluster, snapshot.taken + minutes * 60
    free = cluster.awake & (cluster.cpus_free == cluster.cpus) & (cluster.gpu_free == cluster.gpu_exists).all(axis=1)
    names = {cluster.node_names[row] for row in np.flatnonzero(free)}
    for reservation in snapshot.reservations:
        if reservation.start < end and reservation.end > snapshot.taken:
            names -= reservation.nodes
    return names - {node for job in snapshot.running for node in job.nodes}


def down(snapshot: Snapshot) -> set[str]:
    cluster = snapshot.cluster
    return {cluster.node_names[row] for row in np.flatnonzero(~cluster.node_ok)}


def in_the_way(snapshot: Snapshot, ours: Collection[str], own_ids: Collection[int]) -> list[str]:
    """Nodes of ours that waiting jobs need; each node is given to one job."""
    waiting = [job for job in snapshot.pending if job.id not in own_ids and _wants_room(job, snapshot.taken)]
    if not waiting or not ours:
        return []
    room = _Room(snapshot, ours)
    needs = Needs(snapshot.cluster, snapshot.reservations, snapshot.taken)
    for job in waiting:
        room.give(needs.guess(job), job.exclusive)
    return sorted(room.given)


def _wants_room(job: Job, now: float) -> bool:
    """Waits for nodes only; one under pald's lease waits for pald, which waits for nodes."""
    if job.dependency or job.het:
        return False
    return job.why in _FOR_ROOM or (job.lease is not None and job.why is Waits.BEGIN)


class _Room:
    """What is free, with and without our nodes, while waiting jobs are given theirs."""

    def __init__(self, snapshot: Snapshot, ours: Iterable[str]) -> None:
        cluster = snapshot.cluster
        self._names = cluster.node_names
        self._mine = np.fromiter((name in set(ours) for name in self._names), dtype=np.bool_)
        self._ok = cluster.node_ok | self._mine
        self._gpus = np.where(self._mine, cluster.gpu_exists.sum(axis=1), cluster.gpu_free.sum(axis=1))
        self._cpus = np.where(self._mine, cluster.cpus, cluster.cpus_free)
        self._all_cpus = cluster.cpus
        self._mem = np.where(self._mine, cluster.mem_mb, cluster.mem_free_mb)
        self.given: set[str] = set()

    def give(self, need: Need, exclusive: bool) -> None:
        """Take room for one job: nodes that are free anyway before ours; nothing where it does not fit in all."""
        for nodes, gpus, cpus, mem in need.ways or ((1, 0, need.shape.cpus, need.shape.mem_on_each(1)),):
            fits = self._ok & (self._gpus >= gpus) & (self._cpus >= cpus) & (self._mem >= mem)
            if exclusive:
                fits &= self._cpus == self._all_cpus
            for area in need.areas:
                rows = np.flatnonzero(fits if area.mask is None else fits & area.mask)
                if rows.size >= nodes:
                    self._take(rows, nodes, gpus, cpus, mem)
                    return

    def _take(
        self, rows: np.ndarray[tuple[int], np.dtype[np.intp]], nodes: int, gpus: int, cpus: int, mem: int
    ) -> None:
        used_first = rows[np.argsort(self._ours_left()[rows], kind="stable")][:nodes]
        for row in used_first.tolist():
            self._gpus[row] -= gpus
            self._cpus[row] -= cpus
            self._mem[row] -= mem
            if self._mine[row]:
                self.given.add(self._names[row])

    def _ours_left(self) -> BoolArray:
        """Our nodes that were not given away yet: the last to be taken."""
        given = np.fromiter((name in self.given for name in self._names), dtype=np.bool_)
        return self._mine & ~given
