"""Nodes of the simulated cluster: who holds which slot, CPU and megabyte. In: parts given and freed. Out: NodeRecord.

Slots are bits of a number: bit 2 of `busy` is slot g2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pal_slurm.model import Cluster
from pal_slurm.slurm.node_states import UNFIT
from pal_slurm.slurm.nodes import NodeRecord, SiteWords


class Part(NamedTuple):
    """What a job holds on one node."""

    row: int
    slots: int  # bits
    cpus: int
    mem_mb: int
    shards: int = 0  # bits: of each of these GPUs a part


class Free(NamedTuple):
    """What a node has to give."""

    slots: int  # bits
    cpus: int
    mem_mb: int
    open: int = 0  # bits: of these a part can be had


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
    shards: int = 0  # parts of each GPU; 0: none can be had
    shared: Counter[int] = field(default_factory=Counter)  # of these, those that are taken, by slot
    ending: list[Part] = field(default_factory=list)  # of jobs that are COMPLETING, where it tells them as free
    _record: NodeRecord | None = field(default=None, repr=False)

    @property
    def up(self) -> bool:
        return self.state not in UNFIT

    @property
    def whole(self) -> Free:
        every = (1 << self.gpus) - 1
        return Free(every, self.cpus, self.mem_mb, every if self.shards else 0)

    @property
    def free(self) -> Free:
        slots, open_ = left(self, self.busy, self.shared)
        return Free(slots, self.cpus - self.cpus_used, self.mem_mb - self.mem_used, open_)

    @property
    def told(self) -> Free:
        """What it says is free."""
        free = self.free
        for part in self.ending:
            cpus, mem_mb = free.cpus + part.cpus, free.mem_mb + part.mem_mb
            free = free._replace(slots=free.slots | part.slots, cpus=cpus, mem_mb=mem_mb)
        return free

    def hold(self, part: Part, sign: int = 1) -> None:
        """`sign` -1: give it back."""
        self.busy ^= part.slots
        self.shared.update(dict.fromkeys(bits(part.shards), sign))
        self.cpus_used += sign * part.cpus
        self.mem_used += sign * part.mem_mb
        self._record = None

    def ends(self, part: Part, *, over: bool = False) -> None:
        self.ending.remove(part) if over else self.ending.append(part)
        self._record = None

    def said(self, state: str) -> None:
        self.state, self._record = state, None

    def record(self) -> NodeRecord:
        """As Slurm tells it."""
        if self._record is None:
            cpus_used = self.cpus_used - sum(part.cpus for part in self.ending)
            used = "ALLOCATED" if cpus_used >= self.cpus else "MIXED" if cpus_used else "IDLE"
            busy = self.busy
            for part in self.ending:
                busy &= ~part.slots
            self._record = NodeRecord(
                self.name, f"{used}+{self.state}" if self.state else used, self.cpus, cpus_used, self.mem_mb,
                self.mem_used, self.features, _configured(self.gpus, self.shards),
                _used(self.gpus, busy) + self._used_parts(),
            )  # fmt: skip
        return self._record

    def _used_parts(self) -> str:
        if not self.shards:
            return ""
        held = ((slot, self.shared[slot]) for slot in range(self.gpus))
        return "".join(f",shard:g{s}:{n}({'-' if self.busy >> s & 1 else n}/{self.shards})" for s, n in held)


def left(node: Node, busy: int, shared: Mapping[int, int]) -> tuple[int, int]:
    """Bits: GPUs that nobody has any of; and those of which a part can be had."""
    free = ~busy & ((1 << node.gpus) - 1)
    parted = sum(1 << slot for slot, n in shared.items() if n > 0)
    full = sum(1 << slot for slot, n in shared.items() if n >= node.shards)
    return free & ~parted, free & ~full if node.shards else 0


@lru_cache(maxsize=64)
def _configured(gpus: int, shards: int) -> str:
    whole = ",".join(f"gpu:g{slot}:1" for slot in range(gpus))
    return whole + "".join(f",shard:g{slot}:{shards}" for slot in range(gpus) if shards)


@lru_cache(maxsize=1024)
def _used(gpus: int, busy: int) -> str:
    held = ((slot, busy >> slot & 1) for slot in range(gpus))
    return ",".join(f"gpu:g{slot}:{n}(IDX:{slot if n else 'N/A'})" for slot, n in held)


@lru_cache(maxsize=4096)
def detail(slots: int) -> str:
    """The GRES that a running job has on one node."""
    return ",".join(f"gpu:g{slot}:1(IDX:{slot})" for slot in bits(slots))


def detail_of(part: Part, node: Node) -> str:
    """The same, where it may have a part of one only."""
    if not part.shards:
        return detail(part.slots)
    of_each = ",".join(f"{part.shards >> slot & 1}/{node.shards}" for slot in range(node.gpus))
    return f"shard:{part.shards.bit_count()}({of_each})"


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
    """Features that name GPU models, where there are several; the topology, where there is more of it than racks."""
    models = cluster.models if len(cluster.models) > 1 else ()
    levels = (cluster.rack, *cluster.above) if cluster.above else ()
    return SiteWords(
        models=models,
        levels=tuple(dict(zip(cluster.node_names, map(str, level.tolist()), strict=True)) for level in levels),
    )
