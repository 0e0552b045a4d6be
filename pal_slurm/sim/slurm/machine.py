"""Nodes of the simulated cluster: who holds which slot, CPU and megabyte. In: parts given and freed. Out: NodeRecord.

Slots are bits of a number: bit 2 of `busy` is slot g2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pal_slurm.model import Cluster
from pal_slurm.slurm.nodes import PLAIN_WORDS, UNFIT, NodeRecord, SiteWords


class Part(NamedTuple):
    """What a job holds on one node."""

    row: int
    slots: int  # bits
    cpus: int
    mem_mb: int


class Free(NamedTuple):
    """What a node has to give."""

    slots: int  # bits
    cpus: int
    mem_mb: int


@dataclass(slots=True, eq=False)
class Node:
    name: str
    gpus: int
    cpus: int
    mem_mb: int
    features: str = ""
    state: str = ""  # DRAIN, DOWN ...: what keeps it from starting jobs
    busy: int = 0
    cpus_used: int = 0
    mem_used: int = 0
    _record: NodeRecord | None = field(default=None, repr=False)

    @property
    def up(self) -> bool:
        return self.state not in UNFIT

    @property
    def whole(self) -> Free:
        return Free((1 << self.gpus) - 1, self.cpus, self.mem_mb)

    @property
    def free(self) -> Free:
        return Free(~self.busy & ((1 << self.gpus) - 1), self.cpus - self.cpus_used, self.mem_mb - self.mem_used)

    def hold(self, part: Part, sign: int = 1) -> None:
        """`sign` -1: give it back."""
        self.busy ^= part.slots
        self.cpus_used += sign * part.cpus
        self.mem_used += sign * part.mem_mb
        self._record = None

    def said(self, state: str) -> None:
        self.state, self._record = state, None

    def record(self) -> NodeRecord:
        """As Slurm tells it."""
        if self._record is None:
            used = "ALLOCATED" if self.cpus_used >= self.cpus else "MIXED" if self.cpus_used else "IDLE"
            self._record = NodeRecord(
                self.name, f"{used}+{self.state}" if self.state else used, self.cpus, self.cpus_used, self.mem_mb,
                self.mem_used, self.features, _configured(self.gpus), _used(self.gpus, self.busy),
            )  # fmt: skip
        return self._record


@lru_cache(maxsize=64)
def _configured(gpus: int) -> str:
    return ",".join(f"gpu:g{slot}:1" for slot in range(gpus))


@lru_cache(maxsize=1024)
def _used(gpus: int, busy: int) -> str:
    held = ((slot, busy >> slot & 1) for slot in range(gpus))
    return ",".join(f"gpu:g{slot}:{n}(IDX:{slot if n else 'N/A'})" for slot, n in held)


@lru_cache(maxsize=4096)
def detail(slots: int) -> str:
    """The GRES that a running job has on one node."""
    return ",".join(f"gpu:g{slot}:1(IDX:{slot})" for slot in bits(slots))


def bits(slots: int) -> Iterator[int]:
    while slots:
        low = slots & -slots
        yield low.bit_length() - 1
        slots ^= low


def lowest(slots: int, n: int) -> int:
    """The lowest `n` of these bits; 0 when there are fewer."""
    found = 0
    for _ in range(n):
        if not slots:
            return 0
        found |= slots & -slots
        slots &= slots - 1
    return found


def nodes_of(cluster: Cluster) -> list[Node]:
    """Idle nodes for a cluster of the simulator's; racks and models become features."""
    models: Sequence[str] = cluster.models
    return [
        Node(
            name,
            int(cluster.gpu_exists[row].sum()),
            int(cluster.cpus[row]),
            int(cluster.mem_mb[row]),
            f"{models[int(cluster.gpu_model[row, 0])]},rack{int(cluster.rack[row])}",
        )
        for row, name in enumerate(cluster.node_names)
    ]


def words_of(cluster: Cluster) -> SiteWords:
    """What its topology tells, where there is more of it than racks."""
    if not cluster.above:
        return PLAIN_WORDS
    levels = (cluster.rack, *cluster.above)
    return SiteWords(
        levels=tuple(dict(zip(cluster.node_names, map(str, level.tolist()), strict=True)) for level in levels)
    )
