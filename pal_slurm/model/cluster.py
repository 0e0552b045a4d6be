"""The cluster as a struct of arrays. In: what Slurm says of nodes and GPUs. Out: read-only arrays for planners.

Row i is node i; column s is slot s (the fixed place of a device in its node). A node with fewer slots than the widest
is padded: `gpu_exists` is False there. One matrix per fact keeps the hot paths in numpy (100,000 GPUs in one plan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model.partition import PartitionRule

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.signedinteger[Any]]
FloatArray = NDArray[np.floating[Any]]


class Tier(IntEnum):
    """How far apart a job's GPUs are: the span."""

    GPU = 0
    NODE = 1
    RACK = 2
    CLUSTER = 3


@dataclass(frozen=True, eq=False)
class Cluster:
    """All nodes and GPUs at one moment."""

    node_names: tuple[str, ...]
    node_ok: BoolArray  # (N,) may start a job now: up, not drained, not in a maintenance window
    rack: IntArray  # (N,) rack number; one rack when the site has no topology
    cpus: IntArray  # (N,) configured
    cpus_free: IntArray  # (N,)
    mem_mb: IntArray  # (N,) configured
    mem_free_mb: IntArray  # (N,)
    features: tuple[frozenset[str], ...]  # (N,) active features, GPU model and rack among them
    partitions: Mapping[str, BoolArray]  # name -> (N,) nodes of that partition that is up
    gpu_exists: BoolArray  # (N, S)
    gpu_free: BoolArray  # (N, S)
    gpu_model: IntArray  # (N, S) index into `models`
    models: tuple[str, ...] = ("gpu",)
    above: tuple[IntArray, ...] = ()  # (N,) each: groups of racks, groups of those ...; none: nothing is known of them
    linked: IntArray | None = None  # (N, S) GPUs of a node with the same number are linked directly; None: nobody tells
    blocks: tuple[
        tuple[int, IntArray], ...
    ] = ()  # (N,) each: a job of up to so many nodes has all of one number; < 0: none
    billing: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # partition -> model, in small letters -> what a GPU bills
    slots: bool = False  # each device has a GRES type of its own (g0, g1 ...): exact pins can be asked for
    parts: IntArray | None = None  # (N, S) as how many shards a GPU may be given out; None: no GPU can be shared
    parts_free: IntArray | None = None  # (N, S) of these, those that nobody has
    rules: Mapping[str, PartitionRule] = field(default_factory=dict)  # of partitions
    asleep: BoolArray | None = None  # (N,) powered down, or to be rebooted: only where none else does; None: no node is
    node_index: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_index", {name: i for i, name in enumerate(self.node_names)})
        for value in (*vars(self).values(), *self.above, *(block for _, block in self.blocks)):
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def awake(self) -> BoolArray:
        """(N,) may start a job now, and at once."""
        return self.node_ok if self.asleep is None else self.node_ok & ~self.asleep

    @property
    def n_nodes(self) -> int:
        return len(self.node_names)

    @property
    def width(self) -> int:
        """Slots of the widest node."""
        return int(self.gpu_exists.shape[1])

    @cached_property
    def gpus_per_node(self) -> IntArray:
        counts: IntArray = self.gpu_exists.sum(axis=1)
        return counts

    @property
    def n_gpus(self) -> int:
        return int(self.gpu_exists.sum())

    @cached_property
    def alike(self) -> IntArray:
        """(N,) the same number for nodes of the same partitions that have as many GPUs of the same models."""
        rows = np.stack([*self.partitions.values(), *np.where(self.gpu_exists, self.gpu_model, -1).T])
        numbers: IntArray = np.unique(rows, axis=1, return_inverse=True)[1].ravel()
        return numbers

    @cached_property
    def feature_masks(self) -> Mapping[str, BoolArray]:
        """Feature -> (N,) nodes that have it."""
        masks: dict[str, BoolArray] = {}
        for i, names in enumerate(self.features):
            for name in names:
                masks.setdefault(name, np.zeros(self.n_nodes, dtype=np.bool_))[i] = True
        return masks

    @cached_property
    def linked_most(self) -> tuple[int, ...]:
        """For each number in `linked`: how many GPUs of a node have it at most."""
        if self.linked is None or not self.linked.size:
            return ()
        counts = [(self.gpu_exists & (self.linked == one)).sum(axis=1).max() for one in range(self.linked.max() + 1)]
        return tuple(map(int, counts))

    def linked_within(self, row: int, slots: Sequence[int]) -> bool:
        """Whether these GPUs of one node are all linked directly, as far as anybody tells."""
        return self.linked is None or len({int(self.linked[row, slot]) for slot in slots}) <= 1

    def tier_of(self, nodes: Sequence[int], gpus: int) -> Tier:
        """The span of `gpus` GPUs on these nodes (row numbers)."""
        if len(nodes) == 1:
            return Tier.GPU if gpus == 1 else Tier.NODE
        return Tier.RACK if self.one_rack or len(set(map(self.rack.item, nodes))) == 1 else Tier.CLUSTER

    @cached_property
    def one_rack(self) -> bool:
        return bool((self.rack == self.rack[:1]).all())


def homogeneous(
    nodes: int, gpus: int, *, rack_size: int = 0, group_sizes: Sequence[int] = (), cpus: int = 64, mem_mb: int = 512_000
) -> Cluster:
    """An idle cluster of equal nodes n1..nN with slots, for simulations, benchmarks and tests.

    `group_sizes`: nodes under one switch of each level above the racks.
    """
    ones = np.ones(nodes, dtype=np.bool_)
    rows = np.arange(nodes, dtype=np.int32)
    return Cluster(
        node_names=tuple(f"n{i + 1}" for i in range(nodes)),
        node_ok=ones,
        rack=rows // rack_size if rack_size else np.zeros(nodes, dtype=np.int32),
        cpus=np.full(nodes, cpus, dtype=np.int32),
        cpus_free=np.full(nodes, cpus, dtype=np.int32),
        mem_mb=np.full(nodes, mem_mb, dtype=np.int64),
        mem_free_mb=np.full(nodes, mem_mb, dtype=np.int64),
        features=(frozenset(),) * nodes,
        partitions={"gpu": ones.copy()},
        gpu_exists=np.ones((nodes, gpus), dtype=np.bool_),
        gpu_free=np.ones((nodes, gpus), dtype=np.bool_),
        gpu_model=np.zeros((nodes, gpus), dtype=np.int16),
        slots=True,
        above=tuple((rows // size).astype(np.int32) for size in group_sizes),
    )
