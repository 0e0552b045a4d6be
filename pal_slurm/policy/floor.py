"""The working state of a plan. In: cluster, knowledge, then take and give. Out: what is free, and ranked tables of it.

The daemon makes one per cycle; the simulator keeps one for a whole run. `take` and `give` only note which nodes have
changed; a table brings just those up to date when it is next asked (tables.py), so a job costs tens of microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

import numpy as np

from pal_slurm.model import App, BoolArray, Cluster, FloatArray, IntArray, Job, Knowledge, Placement, Reservation
from pal_slurm.policy.earmark import Earmark, same
from pal_slurm.policy.freegpus import FreeGpus, mask_of
from pal_slurm.policy.merit import Merit, Worth, class_merit, flat_merit, worth_to_others
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.rackroom import RackRoom
from pal_slurm.policy.tables import NodeTable, SetTable, node_table, set_table

Models = frozenset[int] | None  # GPU models allowed; None: all


def still_there(placement: Placement, cluster: Cluster) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Row and slots of each node, without what has left the configuration while a job holds it."""
    index, width = cluster.node_index, cluster.width
    for name, slots in zip(placement.nodes, placement.gpus or ((),) * len(placement.nodes), strict=True):
        if (row := index.get(name)) is not None:
            yield row, slots if not slots or max(slots) < width else tuple(s for s in slots if s < width)


class Floor(FreeGpus):
    """Which GPUs, CPUs and memory are free, and for each class the nodes in the order in which it would take them."""

    def __init__(
        self,
        cluster: Cluster,
        knowledge: Knowledge,
        *,
        now: float = 0.0,
        reservations: Sequence[Reservation] = (),
        waiting: frozenset[str] | None = None,
    ) -> None:
        """`waiting`: the classes whose good GPUs are spared where that costs nothing; None: all."""
        self.cluster = cluster
        self.knowledge = knowledge
        self.usable: BoolArray = cluster.gpu_exists & cluster.node_ok[:, None]
        self.set_free(self.usable & cluster.gpu_free)
        self.cpus_free: IntArray = cluster.cpus_free.astype(np.int64)
        self.mem_free: IntArray = cluster.mem_free_mb.astype(np.int64)
        # What those who stay beyond the start of a waiting job may take where it is to run: GPUs, CPUs, MB by row.
        self.kept: dict[int, tuple[int, int, int]] = {}
        self.whole: Floor | None = None  # for which nothing is kept, where something is
        self.earmark: Earmark | None = None  # nodes that small jobs leave to a waiting one
        self.spared: FloatArray | None = None  # (N,) times as dear, to jobs that would break up a whole node
        # Kinds of jobs for which nothing can be asked for now, and those that not even Slurm could start somehow.
        self.unfit: set[Need] = set()
        self.nowhere: set[Need] = set()
        # What was found last for a kind of job: after how many changes, by which placer, for which application.
        self.found: dict[Need, tuple[int, object, App, Placement]] = {}
        self.needs = Needs(cluster, reservations, now, knowledge.pools)
        self._merits: dict[tuple[str | None, frozenset[str] | None], Merit] = {(None, None): flat_merit(cluster)}
        self._worths: dict[frozenset[str] | None, Worth] = {}
        self._waiting = waiting
        self._tables: dict[tuple[object, ...], NodeTable | SetTable] = {}
        self.racks: RackRoom | None = None  # rackroom.py makes it when somebody asks
        # Whether CPUs and memory are there wherever GPUs are: nobody has asked for more than his GPUs' share of a node.
        self.gpus_decide = bool(((cluster.cpus_free >= cluster.cpus) & (cluster.mem_free_mb >= cluster.mem_mb)).all())
        gpus = np.maximum(cluster.gpus_per_node, 1)
        self._share = (float((cluster.cpus / gpus).min(initial=inf)), float((cluster.mem_mb / gpus).min(initial=inf)))

    def expects(self, need: Need | None) -> None:
        """Such a job waits; None: one that is looked at by itself."""
        self.gpus_decide &= need is not None and all(self._modest(*way[1:]) for way in need.ways)

    def _modest(self, gpus: int, cpus: int, mem_mb: int) -> bool:
        return cpus <= gpus * self._share[0] and mem_mb <= gpus * self._share[1]

    def copy(self) -> Floor:
        """The same state; what is taken in the copy stays free here."""
        twin = self.beside()
        twin.set_free(self.free.copy())
        twin.cpus_free, twin.mem_free = self.cpus_free.copy(), self.mem_free.copy()
        twin._tables = {}
        twin.whole = twin.racks = None
        return twin

    def beside(self) -> Floor:
        """The same floor, for jobs that may not take all of what is free: see `kept`."""
        twin = object.__new__(Floor)
        twin.__dict__.update(self.__dict__)
        twin._masks = self.masks  # made before both share them
        twin.found, twin.kept, twin.whole = {}, dict(self.kept), self
        twin.unfit, twin.nowhere = set(self.unfit), set(self.nowhere)
        return twin

    def emptied(self) -> Floor:
        """If everything that can be used at all were free."""
        twin = self.copy()
        twin.kept, twin.unfit, twin.nowhere = {}, set(), set()
        twin.set_free(self.usable.copy())
        twin.cpus_free, twin.mem_free = self.cluster.cpus.astype(np.int64), self.cluster.mem_mb.astype(np.int64)
        return twin

    def spare(self, waiting: frozenset[str]) -> bool:
        """These classes wait now. Out: whether others did before."""
        if waiting == self._waiting:
            return False
        self._waiting = waiting
        self.found.clear()
        return True

    def earmarks(self, nodes: Earmark | None) -> None:
        """From now on."""
        if not same(nodes, self.earmark):
            self.found.clear()
        self.earmark = nodes

    def spares(self, price: FloatArray | None) -> None:
        """For who is placed next."""
        if price is not self.spared:
            self.found.clear()
        self.spared = price

    def spared_for(self, gpus: int) -> FloatArray:
        """(N,) the same for a job that takes so many GPUs of one node."""
        assert self.spared is not None
        return np.where(self.cluster.gpus_per_node > gpus, self.spared, 1.0)

    def merit(self, cls: str | None) -> Merit:
        """The ranks of a class; None: all GPUs alike."""
        key = (cls, None if cls is None else self._waiting)
        found = self._merits.get(key)
        if found is None:
            scores = self.knowledge.scores
            row = scores.index(cls or "")
            same = self._merits.get((scores.classes[row], self._waiting))
            found = self._merits[key] = same or class_merit(scores, row, self._worth())
        return found

    def _worth(self) -> Worth:
        if self._waiting not in self._worths:
            scores = self.knowledge.scores
            names = scores.classes if self._waiting is None else self._waiting
            rows = tuple(sorted({scores.index(n) for n in names}))
            self._worths[self._waiting] = worth_to_others(scores, self.cluster.gpu_exists, rows)
        return self._worths[self._waiting]

    def node_table(
        self, cls: str | None, gpus: int, models: Models = None, by_slot: bool = True, linked: int | None = None
    ) -> NodeTable:
        """For one node and `gpus` GPUs: how good each node is now. `by_slot`: else Slurm takes the lowest free ones.

        `linked`: only GPUs with this number in the cluster's `linked`.
        """
        key = ("node", cls, self._waiting, gpus, models, by_slot, linked)
        table = self._tables.get(key)
        if not isinstance(table, NodeTable):
            table = self._tables[key] = node_table(self, self.merit(cls), gpus, models, by_slot, linked)
        table.refresh(self)
        return table

    def set_table(
        self, cls: str | None, gpus: int, rows: IntArray, models: Models = None, by_slot: bool = True
    ) -> SetTable:
        """For several nodes and `gpus` GPUs on each: how good each of these `rows` is now, per choice of slots."""
        key = ("set", cls, self._waiting, gpus, models, by_slot)
        table = self._tables.get(key)
        if not isinstance(table, SetTable):
            table = self._tables[key] = set_table(self, self.merit(cls), gpus, models, by_slot)
        table.refresh(self, rows)
        return table

    def room(self, nodes: BoolArray | None, gpus: int, cpus: int, mem_mb: int) -> BoolArray:
        """(N,) nodes out of `nodes` with that many GPUs, and that much CPU and memory, free."""
        ok: BoolArray = self.n_free >= gpus
        if cpus:
            ok &= self.cpus_free >= cpus
        if mem_mb:
            ok &= self.mem_free >= mem_mb
        for row, (most_gpus, most_cpus, most_mb) in self.kept.items():
            if gpus > most_gpus or cpus > most_cpus or mem_mb > most_mb:
                ok[row] = False
        return ok if nodes is None else ok & nodes

    def has_room(self, row: int, gpus: int, cpus: int, mem_mb: int) -> bool:
        """The same for one node whose GPUs are known to be free."""
        if (cpus and self.cpus_free[row] < cpus) or self.mem_free[row] < mem_mb:
            return False
        kept = self.kept.get(row)
        return kept is None or (gpus <= kept[0] and cpus <= kept[1] and mem_mb <= kept[2])

    def may_have(self, need: Need, placement: Placement) -> bool:
        """Whether what is kept stands where somebody takes this."""
        nodes, index, shape = len(placement.nodes), self.cluster.node_index, need.shape
        for name, slots in zip(placement.nodes, placement.gpus, strict=True):
            kept = self.kept.get(index[name])
            if kept is None:
                continue
            if len(slots) > kept[0] or shape.cpus_on_each(nodes) > kept[1] or shape.mem_on_each(nodes) > kept[2]:
                return False
        return True

    def open_gpus(self) -> IntArray:
        """(N,) GPUs that may be taken."""
        if not self.kept:
            return self.n_free
        counts = self.n_free.copy()
        for row, kept in self.kept.items():
            counts[row] = max(0, min(int(counts[row]), kept[0]))
        return counts

    def take(self, job: Job, placement: Placement) -> None:
        """These GPUs, and the job's CPUs and memory there, are no longer free."""
        index, masks = self.cluster.node_index, self.masks
        for name, slots in zip(placement.nodes, placement.gpus, strict=True):
            if mask_of(slots) & ~masks[index[name]]:
                raise ValueError(f"GPUs {slots} of {name} are not all free; job {job.id} can't take them")
        self.hold(job, placement)

    def hold(self, job: Job, placement: Placement) -> None:
        """The same where some of it may be taken already: by a pinned job that Slurm is just starting, or later."""
        nodes = len(placement.nodes)
        masks, same = self.masks, self.same_demand(job, nodes)
        for row, slots in still_there(placement, self.cluster):
            cpus, mem_mb = same or self.demand(job, nodes, row)
            self.gpus_decide = self.gpus_decide and self._modest(len(slots), cpus, mem_mb)
            self._now_free(row, masks[row] & ~mask_of(slots), -cpus, -mem_mb)

    def clear(self, job: Job, placement: Placement) -> Callable[[], None]:
        """Hold it for nobody; what is returned gives back what was free of it."""
        nodes = len(placement.nodes)
        before = [(row, self.masks[row]) for row, _ in still_there(placement, self.cluster)]
        self.hold(job, placement)
        taken = [(row, free & ~self.masks[row], *self.demand(job, nodes, row)) for row, free in before]

        def undo() -> None:
            for row, gpus, cpus, mem_mb in taken:
                self._now_free(row, self.masks[row] | gpus, cpus, mem_mb)
            self.unfit.clear()
            self.nowhere.clear()

        return undo

    def saved(self) -> Callable[[], None]:
        """What is returned puts everything back as it is now."""
        arrays = (self.free, self.n_free, self.cpus_free, self.mem_free)
        before, masks, mark = [array.copy() for array in arrays], self.masks.copy(), len(self.changed)

        def restore() -> None:
            if len(self.changed) == mark:
                return
            for array, old in zip(arrays, before, strict=True):
                array[...] = old
            self.masks[:] = masks
            self.changed.extend(self.changed[mark:])
            self._total = None
            self.unfit.clear()
            self.nowhere.clear()

        return restore

    def learn(self, knowledge: Knowledge) -> None:
        """GPUs are of another worth."""
        self.knowledge = knowledge
        self._merits = {(None, None): flat_merit(self.cluster)}
        for kept in (self._worths, self._tables, self.found):
            kept.clear()

    def ask_by(self, needs: Needs) -> None:
        """Reservations are nearer: jobs are of other kinds."""
        self.needs = needs
        for kept in (self.unfit, self.nowhere, self.found):
            kept.clear()

    def give(self, job: Job, placement: Placement) -> None:
        """The job is gone: what it held is free again, unless its node can't be used."""
        nodes = len(placement.nodes)
        masks, same = self.masks, self.same_demand(job, nodes)
        for row, slots in still_there(placement, self.cluster):
            gpus = mask_of(slots)
            cpus, mem_mb = same or self.demand(job, nodes, row)
            if masks[row] & gpus:
                name = self.cluster.node_names[row]
                raise ValueError(f"GPUs {slots} of {name} are free already; job {job.id} can't give them back")
            self._now_free(row, masks[row] | gpus & self._usable_masks[row], cpus, mem_mb)
        self.unfit.clear()
        self.nowhere.clear()

    def _now_free(self, row: int, mask: int, cpus: int, mem_mb: int) -> None:
        self._put(row, mask)
        if cpus or mem_mb:
            self.cpus_free[row] += cpus
            self.mem_free[row] += mem_mb
        self.changed.append(row)

    def demand(self, job: Job, nodes: int, row: int) -> tuple[int, int]:
        """CPUs and MB on one of its nodes: as Slurm accounts them for a running job, else the least asked for."""
        same = self.same_demand(job, nodes)
        return same or (int(self.cluster.cpus[row]), int(self.cluster.mem_mb[row]))

    def same_demand(self, job: Job, nodes: int) -> tuple[int, int] | None:
        """The same where it does not depend on the node."""
        if job.exclusive:
            return None
        asked = job.shape.cpus_on_each(nodes) if job.shape else 0
        cpus = -(-job.cpus_alloc // nodes) if job.cpus_alloc else asked
        return cpus, job.shape.mem_on_each(nodes) if job.shape else 0
