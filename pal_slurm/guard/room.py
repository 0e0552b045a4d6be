"""CPUs and memory of nodes. In: the snapshot, what a batch takes and leaves. Out: whether there is room, or No."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pal_slurm.guard.verdict import Cause, No
from pal_slurm.model import Cluster, Job, Placement, Shape


class OnNode(NamedTuple):
    """So much of one node."""

    row: int
    cpus: int
    mem_mb: int


@dataclass
class NodeRoom:
    cluster: Cluster
    cpus_taken: Counter[int] = field(default_factory=Counter)  # by row, as the next one
    mem_taken: Counter[int] = field(default_factory=Counter)
    lent: list[OnNode] = field(default_factory=list)  # what comes free for the job that is looked at
    moved: dict[int, list[OnNode]] = field(default_factory=dict)  # by job that moves: what it takes, and leaves

    def check(self, shape: Shape, rows: Sequence[int]) -> None:
        cluster, nodes = self.cluster, len(rows)
        for row in rows:
            node = cluster.node_names[row]
            cpus = (
                cluster.cpus_free[row] - self.cpus_taken[row] + sum(held.cpus for held in self.lent if held.row == row)
            )
            if shape.cpus_on_each(nodes) > cpus:
                raise No(Cause.CPUS, f"{node} has too few CPUs free")
            mem = (
                cluster.mem_free_mb[row]
                - self.mem_taken[row]
                + sum(held.mem_mb for held in self.lent if held.row == row)
            )
            if shape.mem_on_each(nodes) > mem:
                raise No(Cause.MEMORY, f"{node} has too little memory free")

    def lend(self, jobs: Iterable[Job]) -> None:
        """These leave before the pin is made; what one that was let pass leaves is counted already."""
        self.lent = [held for job in jobs if job.id not in self.moved for held in self._held(job)]

    def start(self, shape: Shape, placement: Placement) -> None:
        self._take(self._asked(shape, placement))

    def move(self, job: Job, shape: Shape, placement: Placement, *, leaves: bool) -> None:
        """`leaves`: what it holds is another one's then; else of no use to others but where it goes itself."""
        takes = self._asked(shape, placement)
        there = {room.row for room in takes}
        left = [OnNode(row, -cpus, -mem_mb) for row, cpus, mem_mb in self._held(job) if leaves or row in there]
        self.moved[job.id] = [*takes, *left]
        self._take(self.moved[job.id])

    def stay(self, job: int) -> None:
        """It was to move, and does not."""
        self._take(OnNode(row, -cpus, -mem_mb) for row, cpus, mem_mb in self.moved.pop(job, ()))

    def _take(self, rooms: Iterable[OnNode]) -> None:
        for row, cpus, mem_mb in rooms:
            self.cpus_taken[row] += cpus
            self.mem_taken[row] += mem_mb

    def _asked(self, shape: Shape, placement: Placement) -> list[OnNode]:
        index, nodes = self.cluster.node_index, len(placement.nodes)
        return [OnNode(index[node], shape.cpus_on_each(nodes), shape.mem_on_each(nodes)) for node in placement.nodes]

    def _held(self, job: Job) -> list[OnNode]:
        """Memory that it holds is not told; it is no less than what it asked for."""
        index, nodes = self.cluster.node_index, len(job.nodes)
        mem_mb = job.shape.mem_on_each(nodes) if job.shape else 0
        return [OnNode(index[node], job.cpus_alloc // nodes, mem_mb) for node in job.nodes if node in index]
