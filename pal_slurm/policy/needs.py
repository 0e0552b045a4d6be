"""What a job may be given, worked out once per kind of job. In: Job, Cluster, reservations. Out: Need (masks, ways).

Thousands of waiting jobs are of a few kinds: same shape, same constraints. All that does not depend on what is free is
kept in one Need per kind, and the floor remembers per Need that nothing fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pal_slurm.model import ANYBODY, NO_RULES, BoolArray, Cluster, Job, PoolRules, Reservation, Shape, Tier
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.policy.features import feature_mask
from pal_slurm.policy.pools.billing import affordable, only_of

MOST_KEPT = 1 << 15  # jobs


@dataclass(frozen=True, eq=False)
class Area:
    """Nodes that one choice of partition allows. `mask` None: all of them."""

    partition: str | None  # several, by commas, where they serve the same nodes
    mask: BoolArray | None
    slots: bool = True  # GPUs can be asked for by slot there
    name: str = ""  # of the partition; none: the job named none


@dataclass(frozen=True, eq=False)
class Need:
    """Equal only to itself: one object per kind of job."""

    shape: Shape
    ways: tuple[tuple[int, int, int, int], ...]  # (nodes, GPUs, CPUs, MB on each)
    areas: tuple[Area, ...]
    narrowest: Tier  # the span that it would have on an idle cluster
    preferred: Need | None = None  # the same where it rather runs

    @cached_property
    def gpus(self) -> int:
        """At least."""
        return self.shape.least_gpus


def usual_ways(shape: Shape, width: int, most_nodes: int) -> tuple[tuple[int, int, int, int], ...]:
    """(nodes, GPUs, CPUs, MB on each) worth asking for.

    With a fixed count per node, one node more is only worth it where that asks less CPU or memory of each: otherwise
    leave a node out of any choice, and its worst GPU is no worse and its span no wider.
    """
    ways: list[tuple[int, int, int, int]] = []
    for nodes, gpus in shape.ways(width):
        if nodes > most_nodes:
            break
        way = (nodes, gpus, shape.cpus_on_each(nodes), shape.mem_on_each(nodes))
        if nodes > 0 and 0 < gpus <= width and not (ways and way[1:] == ways[-1][1:]):
            ways.append(way)
    return tuple(ways)


class Needs:
    """All kinds of jobs seen so far, for one cluster at one moment."""

    def __init__(
        self, cluster: Cluster, reservations: Sequence[Reservation], now: float, pools: PoolRules = NO_RULES
    ) -> None:
        self._cluster, self._pools = cluster, pools
        self._now = now
        self._windows = sorted((r for r in reservations if r.end > now), key=lambda r: (r.start, r.name))
        self.partly = any(window.partly for window in self._windows)
        self._kinds: dict[tuple[object, ...], Need | None] = {}
        self._last: dict[int, tuple[Job, Need | None]] = {}  # by job: it is asked for again and again

    def of(self, job: Job) -> Need | None:
        """None: the job asks for what we can't express, or has constraints that we can't honour exactly."""
        last = self._last.get(job.id)
        if last is None or last[0] is not job:
            if len(self._last) >= MOST_KEPT:
                self._last.clear()
            last = self._last[job.id] = job, self._of(job)
        return last[1]

    def _of(self, job: Job) -> Need | None:
        if job.shape is None or job.exclusive:
            return None
        reach = self._reach(job) if self._windows else 0
        words = (job.features, job.prefers, job.excluded_nodes, job.types, job.hint.dearer)
        doors = self._doors(job)
        several = len(job.partitions) > 1  # then a pin has to say which, also where only one takes the job
        kind = (job.shape, doors, several, words, job.reservation, reach)
        if kind not in self._kinds:
            common = self._common_mask(job)
            need = None if common is None else self._work_out(job, job.shape, common, doors)
            self._kinds[kind] = need and self._preferring(need, job.prefers)
        return self._kinds[kind]

    def guess(self, job: Job) -> Need:
        """What Slurm will probably look for, for a job that we don't place: what can't be understood is left out."""
        shape, doors = job.shape or job.roughly, self._doors(job)
        if shape.shares_cpus:
            shape = replace(shape, cpus=0, cpus_per_node=0)
        kind = ("guess", shape, job.exclusive, _texts(job), job.reservation, doors, self._reach(job))
        need = self._kinds.get(kind)
        if need is None:
            common = self._common_mask(job, partly=False)
            if common is None:
                common = np.ones(self._cluster.n_nodes, dtype=np.bool_)
            own = expand_hosts(job.required_nodes)
            if own and len(own) >= shape.min_nodes:  # else Slurm adds others to those that he named
                common &= np.fromiter((name in own for name in self._cluster.node_names), dtype=np.bool_)
            need = self._kinds[kind] = self._work_out(job, shape, common, doors)
        return need

    def _preferring(self, need: Need, words: str) -> Need:
        """`--prefer`: what can't be understood, or is nowhere, is as good as not said. Else nodes that are awake."""
        if not words and self._cluster.asleep is None:
            return need
        mask = feature_mask(words, self._cluster) if words else self._cluster.awake
        areas = [] if mask is None else [
            replace(a, mask=mask if a.mask is None else a.mask & mask) for a in need.areas
        ]  # fmt: skip
        areas = [a for a in areas if a.mask is not None and (a.mask & self._cluster.node_ok).any()]
        if not areas:
            return need
        there = Need(need.shape, need.ways, tuple(map(_simplify, areas)), self._narrowest(need.ways, areas))
        return replace(need, preferred=there)

    def inside(self, need: Need, area: Area, nodes: BoolArray) -> Need | None:
        """The same kind of job on these nodes of one of its areas only; None: they would never do."""
        mask = nodes if area.mask is None else area.mask & nodes
        have = np.where(self._cluster.node_ok & mask, self._cluster.gpus_per_node, 0)
        ways = tuple(way for way in need.ways if np.count_nonzero(have >= way[1]) >= way[0])
        if not ways:
            return None
        within = _simplify(replace(area, mask=mask))
        return Need(need.shape, ways, (within,), self._narrowest(ways, (within,)))

    def _reach(self, job: Job) -> int:
        """How many reservations begin before the job would end by its limit."""
        if job.time_limit_s is None:
            return len(self._windows)
        end = self._now + job.time_limit_s
        return sum(1 for r in self._windows if r.start < end)

    def _doors(self, job: Job) -> tuple[str, ...]:
        """Of the partitions that it names those that Slurm would start it in, as Slurm takes them: by tier."""
        rules = self._cluster.rules
        if len(job.partitions) < 2 or not rules:
            return job.partitions
        open_ = [name for name in job.partitions if rules.get(name, ANYBODY).admits(job)]
        return tuple(sorted(open_ or job.partitions, key=lambda name: -rules.get(name, ANYBODY).tier))

    def _work_out(self, job: Job, shape: Shape, common: BoolArray, doors: tuple[str, ...]) -> Need:
        names: dict[bytes, list[str]] = {}  # those that serve the same nodes: Slurm takes the first that takes it
        masks: dict[bytes, BoolArray] = {}
        for name in doors or ("",):
            allowed = self._cluster.partitions.get(name)
            if name and allowed is None:
                continue  # that partition is down or unknown; another may do
            mask = common if allowed is None else common & allowed
            masks.setdefault(mask.tobytes(), mask)
            names.setdefault(mask.tobytes(), []).append(name)
        several, by_slot = len(job.partitions) > 1, self._cluster.slots and shape.by_slot
        areas: list[Area] = [
            Area(",".join(names[key]) if several else None, mask, by_slot, names[key][0]) for key, mask in masks.items()
        ]
        most = min((self._cluster.rules.get(name, ANYBODY).most_nodes for name in doors), default=math.inf)
        if shape.min_nodes <= most < shape.max_nodes:
            shape = replace(shape, max_nodes=int(most))
        ways = usual_ways(shape, self._cluster.width, self._cluster.n_nodes)
        areas = list(self._in_blocks(affordable(job, areas, ways, self._cluster, self._pools), ways))
        return Need(shape, ways, tuple(map(_simplify, areas)), self._narrowest(ways, areas))

    def _in_blocks(self, areas: Sequence[Area], ways: Sequence[tuple[int, int, int, int]]) -> Iterator[Area]:
        """Where Slurm gives the nodes of one job within one block only, each block is an area of its own."""
        several = min((way[0] for way in ways if way[0] > 1), default=0)
        level = next((block for most, block in self._cluster.blocks if several <= most), None) if several else None
        for area in areas:
            if level is None:
                yield area
                continue
            for number in range(int(level.max()) + 1):
                yield replace(area, mask=(level == number) if area.mask is None else (level == number) & area.mask)

    def _narrowest(self, ways: Sequence[tuple[int, int, int, int]], areas: Sequence[Area]) -> Tier:
        """Counts GPUs only; CPUs and memory that never suffice are for those who look for a place."""
        cluster, best = self._cluster, Tier.CLUSTER
        have = np.where(cluster.node_ok, cluster.gpus_per_node, 0)
        for area in areas:
            for nodes, gpus, _, _ in ways:
                fits = have >= gpus if area.mask is None else (have >= gpus) & area.mask
                if nodes == 1 and fits.any():
                    return Tier.GPU if gpus == 1 else Tier.NODE
                racks = cluster.rack[fits]
                if len(racks) and np.bincount(racks).max() >= nodes:
                    best = Tier.RACK
        return best

    def _common_mask(self, job: Job, *, partly: bool = True) -> BoolArray | None:
        """`partly`: without nodes of which something is reserved."""
        cluster = self._cluster
        mask = np.ones(cluster.n_nodes, dtype=np.bool_)
        if job.features:
            having = feature_mask(job.features, cluster)
            if having is None:
                return None
            mask &= having
        if job.types:
            of_model = only_of(job.types, cluster)
            if of_model is None:
                return None
            mask &= of_model
        closed = expand_hosts(job.excluded_nodes)
        if closed is None:
            return None
        for window in self._windows[: self._reach(job)]:
            if window.name != job.reservation:
                closed |= window.nodes if partly or not window.partly else frozenset()
            else:
                closed |= set(cluster.node_names) - window.nodes
        for name in closed:
            row = cluster.node_index.get(name)
            if row is not None:
                mask[row] = False
        return mask


def _texts(job: Job) -> tuple[str, ...]:
    return job.features, job.excluded_nodes, job.required_nodes, *job.types


def _simplify(area: Area) -> Area:
    return replace(area, mask=None) if area.mask is not None and bool(area.mask.all()) else area
