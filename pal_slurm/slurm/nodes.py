"""Nodes, partitions and reservations as backends read them. In: records. Out: Cluster, Reservation.

A device is free when no job holds it or a part of it (`devices.py`) and its node may start a job now. Nodes inside a
maintenance reservation, or one that keeps others out, may not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from pal_slurm.model import ANYBODY, BoolArray, Cluster, IntArray, PartitionRule, Reservation
from pal_slurm.slurm import devices, gres
from pal_slurm.slurm.node_states import is_late, may_start
from pal_slurm.slurm.nodeset import expand, unfold
from pal_slurm.slurm.topology import Topology
from pal_slurm.words import digits

_SLOT = re.compile(r"g([0-9]{1,3})")
_WEIGHT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)[KMGTP]?")
_MODEL = re.compile(r"gres/gpu:([^:=]+)")
MOST_GPUS = 1024  # of one node
_MOST = 2**63 - 1


class NodeRecord(msgspec.Struct, array_like=True):
    """Facts of one node."""

    name: str
    state: str  # `IDLE+DRAIN`, `mixed*`
    cpus: int = 0
    cpus_alloc: int = 0
    mem_mb: int = 0
    mem_alloc_mb: int = 0
    features: str = ""  # active ones
    gres: str = ""  # configured: `gpu:g0:1,gpu:g1:1`
    gres_used: str = ""  # `gpu:g0:1(IDX:0),gpu:g1:0(IDX:N/A)`
    available: str = ""  # features that it has, or would have after a reboot


class PartitionRecord(msgspec.Struct, array_like=True):
    name: str
    nodes: str
    up: bool = True
    exclusive: bool = False
    billing: str = ""  # TRESBillingWeights
    rule: PartitionRule = ANYBODY
    by_user: bool = False  # a node is shared by jobs of one user alone, or otherwise as only Slurm can tell
    oversubscribed: str = ""  # whose CPUs others get too: FORCE, of all jobs; YES, of those that say so


class ReservationRecord(msgspec.Struct, array_like=True):
    name: str
    nodes: str
    start: int
    end: int
    flags: list[str] = []
    users: list[str] = []  # `-alice`: all but her
    accounts: list[str] = []
    groups: list[str] = []
    partly: bool = False  # of some cores, and maybe GPUs, of its nodes


class Machine(msgspec.Struct):
    """All but the queue."""

    nodes: list[NodeRecord]
    partitions: list[PartitionRecord]
    reservations: list[ReservationRecord]
    topology: Topology = Topology()
    taken: float = 0.0  # when it was asked for


@dataclass(frozen=True, slots=True)
class SiteWords:
    """How this site words things that Slurm has no word for."""

    models: tuple[str, ...] = ()  # node features that name a GPU model; none: the GRES type, else "gpu"
    rack_prefix: str = "rack"  # a feature of this prefix and a number is the node's rack
    levels: tuple[Mapping[str, str], ...] = ()  # node -> rack, and wider ones, where the topology tells
    linked: Mapping[str, Sequence[int]] = field(
        default_factory=dict
    )  # node ("": any other) -> by slot, equal where GPUs are linked directly
    movable_qos: frozenset[str] = frozenset()  # their jobs may be moved while they run
    movable_partitions: frozenset[str] = frozenset()

    def with_movable(self, qos: Collection[str], partitions: Collection[str]) -> SiteWords:
        """The same, with other jobs that may be moved."""
        return replace(self, movable_qos=frozenset(qos), movable_partitions=frozenset(partitions))


PLAIN_WORDS = SiteWords()
NOTHING_HELD: Mapping[str, Collection[int]] = {}


def to_reservation(record: ReservationRecord) -> Reservation:
    flags = frozenset(flag.upper() for flag in record.flags)
    return Reservation(
        name=record.name,
        nodes=expand(record.nodes),
        start=record.start,
        end=record.end,
        maintenance=not flags.isdisjoint({"MAINT", "MAINTENANCE"}),
        flags=flags,
        users=frozenset(record.users),
        accounts=frozenset(record.accounts),
        groups=frozenset(record.groups),
        partly=record.partly,
    )


def to_cluster(
    nodes: Sequence[NodeRecord],
    partitions: Sequence[PartitionRecord],
    reservations: Sequence[Reservation] = (),
    site: SiteWords = PLAIN_WORDS,
    now: float = 0.0,
    held: Mapping[str, Collection[int]] = NOTHING_HELD,
) -> Cluster:
    """`held`: devices that jobs say they hold, by node."""
    names = tuple(node.name for node in nodes)
    kinds = [_believed(gres.gpus_in(node.gres)) for node in nodes]
    widths = [sum(item.n for item in items) for items in kinds]
    slots = any(kinds) and all(_is_slotted(items) for items in kinds if items)
    shape = (len(nodes), max(widths, default=0))
    exists = np.zeros(shape, dtype=np.bool_)
    free = np.zeros(shape, dtype=np.bool_)
    model = np.zeros(shape, dtype=np.int16)
    models: dict[str, int] = {}
    features = tuple(frozenset(word for word in node.features.split(",") if word) for node in nodes)
    for row, node in enumerate(nodes):
        width = widths[row]
        if not width:
            continue
        exists[row, :width] = True
        free[row, :width] = True
        free[row, list(devices.taken(node.gres_used, kinds[row], held.get(node.name, ())))] = False
        column = 0
        for item in kinds[row]:
            name = _model(features[row], item.type, slots, site)
            model[row, column : column + item.n] = models.setdefault(name, len(models))
            column += item.n
    parts, parts_free = _shards(nodes, kinds, free) if slots else (None, None)
    ok = np.array([may_start(node.state) for node in nodes], dtype=np.bool_)
    asleep = np.array([is_late(node.state) for node in nodes], dtype=np.bool_)
    ok &= ~_closed(names, reservations, now)
    cpus = _amounts([node.cpus for node in nodes], np.int32)
    racks = [_numbers(level) for level in _levels(names, features, site)]
    memory = _amounts([node.mem_mb for node in nodes], np.int64)
    return Cluster(
        node_names=names,
        node_ok=ok,
        rack=racks[0],
        cpus=cpus,
        cpus_free=np.maximum(cpus - _amounts([node.cpus_alloc for node in nodes], np.int32), 0),
        mem_mb=memory,
        mem_free_mb=np.maximum(memory - _amounts([node.mem_alloc_mb for node in nodes], np.int64), 0),
        features=features,
        partitions=_masks(names, partitions),
        billing={partition.name: _weights(partition.billing) for partition in partitions if partition.billing},
        rules={partition.name: partition.rule for partition in partitions if partition.rule != ANYBODY},
        gpu_exists=exists,
        gpu_free=free,
        gpu_model=model,
        models=tuple(models) or ("gpu",),
        slots=slots,
        parts=parts,
        parts_free=parts_free,
        above=tuple(racks[1:]),
        linked=_linked(names, widths, shape, site.linked),
        asleep=asleep if asleep.any() else None,
    )


def _shards(
    nodes: Sequence[NodeRecord], kinds: Sequence[tuple[gres.Gpus, ...]], free: BoolArray
) -> tuple[IntArray | None, IntArray | None]:
    """As how many shards each GPU may be given out, and how many are free; nothing where nobody can share."""
    if not any("shard" in node.gres for node in nodes):
        return None, None
    there, open_ = np.zeros(free.shape, dtype=np.int16), np.zeros(free.shape, dtype=np.int16)
    for row, node in enumerate(nodes):
        if "shard" not in node.gres:
            continue
        whole = set(np.flatnonzero(free[row]).tolist())
        for slot, (many, left) in enumerate(devices.shards_of(node.gres, node.gres_used, kinds[row], whole)):
            there[row, slot], open_[row, slot] = many, left
    return there, open_


def _believed(items: tuple[gres.Gpus, ...]) -> tuple[gres.Gpus, ...]:
    """None where they are more than can be in any node."""
    return items if sum(item.n for item in items) <= MOST_GPUS else ()


def _amounts(values: list[int], kind: type[np.signedinteger[Any]]) -> IntArray:
    """What no number of that kind holds is its greatest."""
    try:
        found = np.array(values, dtype=np.int64)
    except OverflowError:
        found = np.array([min(max(value, 0), _MOST) for value in values], dtype=np.int64)
    return np.clip(found, 0, np.iinfo(kind).max).astype(kind)


def _linked(
    names: tuple[str, ...], widths: Sequence[int], shape: tuple[int, int], told: Mapping[str, Sequence[int]]
) -> IntArray | None:
    """What is told of another number of GPUs than the node has counts for nothing: they are as if all were linked."""
    found = np.zeros(shape, dtype=np.int16)
    for row, (name, width) in enumerate(zip(names, widths, strict=True)):
        groups = told.get(name, told.get("", ()))
        if width and len(groups) == width:
            found[row, :width] = groups
    return found if found.any() else None


def _is_slotted(items: tuple[gres.Gpus, ...]) -> bool:
    """One device per type, and the types are g0, g1 ... in order."""
    return all(item.n == 1 and item.type == f"g{place}" for place, item in enumerate(items))


def _model(features: frozenset[str], kind: str, slots: bool, site: SiteWords) -> str:
    for name in site.models:
        if name in features:
            return name
    return kind if kind and not slots and not _SLOT.fullmatch(kind) else "gpu"


def _closed(names: tuple[str, ...], reservations: Sequence[Reservation], now: float) -> BoolArray:
    """Nodes that a reservation keeps for others at this moment; movers look beyond their own."""
    taken = [r.nodes for r in reservations if r.start <= now < r.end and r.fenced is None and not r.partly]
    return np.array([any(name in nodes for nodes in taken) for name in names], dtype=np.bool_)


def _levels(
    names: tuple[str, ...], features: tuple[frozenset[str], ...], site: SiteWords
) -> Iterator[list[str | None]]:
    """The rack of each node, then what is wider; nodes of which nothing is known share one."""
    if site.levels:
        for level in site.levels:
            yield [level.get(name) for name in names]
    else:
        yield [next((w for w in sorted(words) if _names_rack(w, site.rack_prefix)), None) for words in features]


def _numbers(level: list[str | None]) -> IntArray:
    """From 0 on, in order of appearance."""
    found: dict[str | None, int] = {}
    return np.array([found.setdefault(place, len(found)) for place in level], dtype=np.int32)


def _names_rack(word: str, prefix: str) -> bool:
    return word.startswith(prefix) and digits(word[len(prefix) :])


def _weights(text: str) -> dict[str, float]:
    """`CPU=1.0,GRES/gpu:A100=2` is {"a100": 2.0}; what is no number tells nothing."""
    found = {}
    for item in text.split(","):
        kind, _, weight = item.partition("=")
        model, match = _MODEL.fullmatch(kind.strip().lower()), _WEIGHT.fullmatch(weight)
        if model and match:
            found[model[1]] = float(match[1])
    return found


def _masks(names: tuple[str, ...], partitions: Sequence[PartitionRecord]) -> dict[str, BoolArray]:
    place = {name: row for row, name in enumerate(names)}
    masks = {}
    for partition in partitions:
        mask = np.zeros(len(names), dtype=np.bool_)
        rows = [place[name] for name in unfold(partition.nodes) if name in place]
        mask[rows] = partition.up
        masks[partition.name] = mask
    return masks
