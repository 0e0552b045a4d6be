"""When what is taken comes free. In: the floor, running jobs and their limits. Out: the floor later on, start times.

Only time limits count: a job may end sooner, then the next plan sees it. A job without a limit never ends here.
"""

from __future__ import annotations

import math

import numpy as np

from pal_slurm.model import FloatArray, IntArray, Job, Placement
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.needs import Need, Site

Release = tuple[float, int, int]  # time, CPUs, MB


class Horizon:
    """`gpu_at[n, s]`: when that GPU is free; now, later, or never (infinity)."""

    def __init__(self, floor: Floor, now: float) -> None:
        self.now = now
        self.gpu_at: FloatArray = np.where(floor.free, now, math.inf)
        self._releases: dict[int, list[Release]] = {}  # by row
        self._cpus_kept: IntArray = np.zeros(floor.cluster.n_nodes, dtype=np.int64)  # for reservations
        self._mem_kept: IntArray = np.zeros(floor.cluster.n_nodes, dtype=np.int64)

    def occupy(self, floor: Floor, job: Job, placement: Placement, end: float) -> None:
        """This job holds these GPUs until `end`; one past its limit is about to go."""
        end = max(end, self.now + 1.0)
        gpus = placement.gpus or ((),) * len(placement.nodes)
        for name, slots in zip(placement.nodes, gpus, strict=True):
            row = floor.cluster.node_index.get(name)
            if row is None:
                continue  # a node that has left the configuration while its last job runs
            if slots:
                self.gpu_at[row, list(slots)] = end
            if end < math.inf:
                self._releases.setdefault(row, []).append((end, *floor.demand(job, len(placement.nodes), row)))

    def keep(self, floor: Floor, job: Job, placement: Placement, end: float) -> None:
        """Reserved until `end`. Until it starts its share counts as taken too: an earlier hole is nobody's promise."""
        self.occupy(floor, job, placement, end)
        for name in placement.nodes:
            row = floor.cluster.node_index[name]
            cpus, mem_mb = floor.demand(job, len(placement.nodes), row)
            self._cpus_kept[row] += cpus
            self._mem_kept[row] += mem_mb

    def at(self, floor: Floor, when: float) -> Floor:
        """The floor at that time if nothing else starts; infinity: everything that can be used at all is free."""
        later = floor.copy()
        later.unfit, later.nowhere = set(), set()
        later.free = floor.usable & (self.gpu_at <= when)
        later.n_free = later.free.sum(axis=1, dtype=np.int16)
        if when == math.inf:
            later.cpus_free = floor.cluster.cpus.astype(np.int64)
            later.mem_free = floor.cluster.mem_mb.astype(np.int64)
            return later
        later.cpus_free -= self._cpus_kept
        later.mem_free -= self._mem_kept
        for row, releases in self._releases.items():
            for end, cpus, mem_mb in releases:
                if end <= when:
                    later.cpus_free[row] += cpus
                    later.mem_free[row] += mem_mb
        return later

    def spare(self, floor: Floor, row: int, when: float) -> tuple[int, int]:
        """CPUs and MB free on one node at that time."""
        gone = [r for r in self._releases.get(row, ()) if r[0] <= when]
        cpus = int(floor.cpus_free[row] - self._cpus_kept[row]) + sum(r[1] for r in gone)
        return cpus, int(floor.mem_free[row] - self._mem_kept[row]) + sum(r[2] for r in gone)

    def earliest(self, floor: Floor, need: Need) -> float:
        """When a job of this kind first fits; infinity: not within any known limit."""
        times = [self._earliest(floor, site, *way) for site in need.sites for way in need.ways]
        return min(times, default=math.inf)

    def _earliest(self, floor: Floor, site: Site, nodes: int, gpus: int, cpus: int, mem_mb: int) -> float:
        soonest = np.sort(np.where(floor.usable, self.gpu_at, math.inf), axis=1)[:, gpus - 1]
        ready = np.maximum(soonest, self._roomy(floor, cpus, mem_mb))
        if site.mask is not None:
            ready = ready[site.mask]
        return float(np.partition(ready, nodes - 1)[nodes - 1]) if len(ready) >= nodes else math.inf

    def _roomy(self, floor: Floor, cpus: int, mem_mb: int) -> FloatArray:
        """(N,) when each node has that much CPU and memory free."""
        cpus_free, mem_free = floor.cpus_free - self._cpus_kept, floor.mem_free - self._mem_kept
        at: FloatArray = np.where((cpus_free >= cpus) & (mem_free >= mem_mb), self.now, math.inf)
        for row in np.flatnonzero(np.isinf(at)).tolist():
            cpus_then, mem_then = int(cpus_free[row]), int(mem_free[row])
            for end, more_cpus, more_mb in sorted(self._releases.get(row, ())):
                cpus_then, mem_then = cpus_then + more_cpus, mem_then + more_mb
                if cpus_then >= cpus and mem_then >= mem_mb:
                    at[row] = end
                    break
        return at

    def earliest_odd(self, floor: Floor, job: Job) -> float:
        """The same for a job that no even split can express, by trying Slurm's first fit at each time of release."""
        released = {r[0] for releases in self._releases.values() for r in releases}
        times = sorted({t for t in np.unique(self.gpu_at).tolist() if t < math.inf} | released)
        low, high = 0, len(times)
        while low < high:
            middle = (low + high) // 2
            if first_fit(job, self.at(floor, times[middle])) is None:
                low = middle + 1
            else:
                high = middle
        return times[low] if low < len(times) else math.inf

    def roomiest(self, floor: Floor, need: Need) -> Placement | None:
        """The nodes on which it lacks least, for a job whose start nobody can tell: they are kept clear for it."""
        whole = self.at(floor, math.inf)
        endless = np.isinf(self.gpu_at)
        for site in need.sites:
            for nodes, gpus, cpus, mem_mb in need.ways:
                fits = whole.room(site.mask, cpus, mem_mb) & (whole.n_free >= gpus)
                rows = fits.nonzero()[0]
                if len(rows) < nodes:
                    continue
                free = (floor.free & floor.usable)[rows].sum(axis=1)
                ending = (floor.usable & ~endless)[rows].sum(axis=1)
                order = np.lexsort((rows, -np.minimum(free, gpus), -np.minimum(ending, gpus)))
                return self._soonest_slots(floor, sorted(rows[order[:nodes]].tolist()), gpus, site)
        return None

    def _soonest_slots(self, floor: Floor, rows: list[int], gpus: int, site: Site) -> Placement:
        at = np.where(floor.usable, self.gpu_at, math.inf)
        slots = []
        for row in rows:
            existing = np.flatnonzero(floor.usable[row])
            order = existing[np.argsort(at[row, existing], kind="stable")]
            slots.append(tuple(sorted(order[:gpus].tolist())))
        return Placement(tuple(floor.cluster.node_names[r] for r in rows), tuple(slots), False, site.partition)

    def on_planned(self, floor: Floor, nodes: frozenset[str], gpus: int) -> Placement:
        """The devices that Slurm will probably take on the nodes where it plans a job."""
        rows = sorted(floor.cluster.node_index[n] for n in nodes if n in floor.cluster.node_index)
        return self._soonest_slots(floor, rows, gpus, Site(None, None))
