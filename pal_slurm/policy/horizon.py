"""When what is taken comes free. In: who holds what, and their limits. Out: the floor later on, start times.

Only time limits count: a job may end sooner, then the next plan sees it. A job without a limit never ends here. What a
plan keeps for jobs that wait is noted here too, and forgotten when the next plan begins. Per node the times stand
sorted, and only those of nodes that changed are sorted anew.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from pal_slurm.model import BoolArray, FloatArray, IntArray, Job, Placement
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.floor import Floor, still_there
from pal_slurm.policy.needs import Need

Release = tuple[float, int, int]  # time, CPUs, MB
Spot = tuple[float, dict[int, int]]  # a start, and how many GPUs on which rows
FREE = -math.inf  # in the sorted times: at once
FEW = 16  # rows that are sorted one by one


class Horizon:
    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self._gpu_at: FloatArray = np.where(floor.free, 0.0, math.inf)  # when that GPU is free; infinity: never
        self._soon_at: FloatArray = self._gpu_at.copy()  # the same by what is expected of those who run
        self._since: FloatArray = np.zeros_like(self._gpu_at)
        self._away: BoolArray | None = None if floor.usable.all() else ~floor.usable
        self._releases: dict[int, dict[Hashable, Release]] = {}  # by row and by who holds it
        self._sorted: FloatArray = np.empty_like(self._gpu_at)  # (N, S) for each node, ascending
        self._stale: set[int] | None = None  # rows that are to be sorted anew; None: all
        self._seen = 0  # of the floor's changes
        self._kept: dict[int, list[tuple[int, float]]] = {}  # by row: GPUs, until
        self._parts_until: dict[tuple[int, int], float] = {}  # of devices that several may have a part of
        self.refresh: Callable[[], None] = lambda: None  # told before it is asked when jobs will probably end
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """A new plan: nothing is kept for anybody."""
        self.now = now
        self._touch(self._kept)
        self._kept = {}
        self._kept_room: dict[int, tuple[int, int]] = {}  # CPUs and MB by row

    def occupy(
        self, who: Hashable, job: Job, placement: Placement, end: float, soon: float | None = None, since: float = 0.0
    ) -> None:
        """It holds these GPUs until then at latest; since then, and probably until `soon`."""
        nodes = len(placement.nodes)
        if not nodes:
            return  # a list of nodes that can't be read
        same = self.floor.same_demand(job, nodes)
        for row, slots in still_there(placement, self.floor.cluster):
            for slot in slots:
                shared = job.parts or placement.shard
                self._gpu_at[row, slot] = self._last_of(row, slot, end) if shared else end
                self._soon_at[row, slot] = end if soon is None or shared else min(soon, end)
                self._since[row, slot] = since
            if self._stale is not None:
                self._stale.add(row)
            if end < math.inf:
                self._releases.setdefault(row, {})[who] = (end, *(same or self.floor.demand(job, nodes, row)))

    def _last_of(self, row: int, slot: int, end: float) -> float:
        """When the last of those that have a part of it has ended."""
        at = self._parts_until[row, slot] = max(end, self._parts_until.get((row, slot), 0.0))
        return at

    def probably(self, placement: Placement, soon: float) -> None:
        """Who holds these GPUs will probably have ended by then, or by its limit."""
        for row, slots in still_there(placement, self.floor.cluster):
            for slot in slots:
                self._soon_at[row, slot] = min(soon, self._gpu_at[row, slot])

    def leave(self, who: Hashable, placement: Placement) -> None:
        """It holds them no longer."""
        for row, slots in still_there(placement, self.floor.cluster):
            for slot in slots:
                self._gpu_at[row, slot] = 0.0
            if self._stale is not None:
                self._stale.add(row)
            self._releases.get(row, {}).pop(who, None)

    def keep(self, job: Job, spots: dict[int, int], end: float) -> None:
        """Reserved until `end`. Until it starts its share counts as taken too: an earlier hole is nobody's promise."""
        for row, gpus in spots.items():
            self._kept.setdefault(row, []).append((gpus, max(end, self.now + 1.0)))
            cpus, mem_mb = self._kept_room.get(row, (0, 0))
            more_cpus, more_mb = self.floor.demand(job, len(spots), row)
            self._kept_room[row] = (cpus + more_cpus, mem_mb + more_mb)
            if end < math.inf:
                self._releases.setdefault(row, {})["kept", job.id] = (end, more_cpus, more_mb)
        self._touch(spots)

    def saved(self) -> Callable[[], None]:
        """What is returned puts everything back as it is now."""
        gpu_at, releases = self._gpu_at.copy(), {row: dict(r) for row, r in self._releases.items()}

        def restore() -> None:
            self._gpu_at[...] = gpu_at
            self._releases = releases
            self._stale = None

        return restore

    def forget(self) -> None:
        """What was kept in this plan."""
        for row in self._kept:
            releases = self._releases.get(row, {})
            for who in [who for who in releases if isinstance(who, tuple) and who[0] == "kept"]:
                del releases[who]
        self.begin(self.now)

    def _touch(self, rows: Iterable[int]) -> None:
        if self._stale is not None:
            self._stale.update(rows)

    def _ready(self) -> FloatArray:
        """(N, S) for each node, ascending: FREE, or the time itself, which may lie behind us."""
        changed = self.floor.changed
        if self._seen == len(changed) and self._stale is not None and not self._stale:
            return self._sorted
        stale, self._stale = self._stale, set()
        if stale is not None:
            stale.update(changed[self._seen :])
        self._seen = len(changed)
        if stale is None or len(stale) > FEW:
            rows = slice(None) if stale is None else sorted(stale)
            at = np.where(self.floor.free[rows], FREE, self._gpu_at[rows])
            if self._away is not None:
                at[self._away[rows]] = math.inf
            at.sort(axis=1)
            self._sorted[rows] = at
            again = self._kept if stale is None else stale & self._kept.keys()
        else:
            again = stale
        for row in again:
            self._sorted[row] = self._ready_on(row)
        return self._sorted

    def _ready_on(self, row: int) -> list[float]:
        """The same of one node, with what is kept there: others may take any GPUs, if they leave as many."""
        at: list[float] = self._gpu_at[row].tolist()
        for slot in self.floor.free[row].nonzero()[0].tolist():
            at[slot] = FREE
        if self._away is not None:
            for slot in self._away[row].nonzero()[0].tolist():
                at[slot] = math.inf
        at.sort()
        for gpus, until in self._kept.get(row, ()):
            at[:gpus] = [until] * min(gpus, len(at))
            at.sort()
        return at

    def _clamp(self, ready: float) -> float:
        """A start: what should have ended by now is about to."""
        return self.now if ready == FREE else max(ready, self.now + 1.0)

    def times(self) -> FloatArray:
        """(N, S) when each GPU is free: now, later, or never."""
        return self._beside_kept(self._gpu_at)

    def expected(self) -> FloatArray:
        """(N, S) when each GPU will probably be free: now, later, or never. One that is overdue is as long again."""
        self.refresh()
        now = self.now
        rest = np.where(self._soon_at > now, self._soon_at, np.minimum(2 * now - self._since, self._gpu_at))
        return self._beside_kept(rest)

    def _beside_kept(self, ends: FloatArray) -> FloatArray:
        """(N, S) the same, given when those who run end."""
        at: FloatArray = np.where(self.floor.free, self.now, np.maximum(ends, self.now + 1.0))
        if self._away is not None:
            at[self._away] = math.inf
        for row, kept in self._kept.items():
            for gpus, until in kept:
                first = np.argsort(np.where(self.floor.usable[row], at[row], math.inf), kind="stable")[:gpus]
                at[row, first] = until
        return at

    def sooner_by(self, spots: dict[int, int]) -> float:
        """By how much sooner than limits promise so many GPUs of each of these nodes will probably be free."""
        rows, last = list(spots), [gpus - 1 for gpus in spots.values()]
        promised, probably = (
            np.sort(at[rows], axis=1)[range(len(rows)), last] for at in (self.times(), self.expected())
        )
        return max(0.0, float(promised.max()) - float(probably.max()))

    def last_slots(self, spots: dict[int, int]) -> dict[int, list[int]]:
        """Of each node so many GPUs: those that are free soonest."""
        times, width = self.times(), self.floor.cluster.width
        # Where slots can't be asked for, Slurm gives others a node's lowest: what is kept are the last of it.
        ties = np.arange(width) if self.floor.cluster.slots else -np.arange(width)
        soon = {row: np.lexsort((ties, np.where(self.floor.usable[row], times[row], math.inf))) for row in spots}
        return {row: sorted(soon[row][:gpus].tolist()) for row, gpus in spots.items()}

    def at(self, when: float) -> Floor:
        """The floor at that time if nothing else starts."""
        later = self.floor.copy()
        later.unfit, later.nowhere, later.kept = set(), set(), {}
        later.set_free(self.floor.usable & (self.times() <= when))
        for row in {*self._releases, *self._kept_room}:
            later.cpus_free[row], later.mem_free[row] = self.spare(row, when)
        return later

    def spare(self, row: int, when: float) -> tuple[int, int]:
        """CPUs and MB free on one node at that time."""
        cpus, mem_mb = int(self.floor.cpus_free[row]), int(self.floor.mem_free[row])
        kept = self._kept_room.get(row)
        if kept is not None:
            cpus, mem_mb = cpus - kept[0], mem_mb - kept[1]
        if when >= self.now + 1.0:
            for end, more_cpus, more_mb in self._releases.get(row, {}).values():
                if end <= when:
                    cpus += more_cpus
                    mem_mb += more_mb
        return cpus, mem_mb

    def gpus_at(self, rows: Sequence[int], when: float) -> list[int]:
        """GPUs of each of these nodes that are free at that time."""
        latest = when if when >= self.now + 1.0 else FREE
        ready = self._ready()
        return [bisect_right(ready[row].tolist(), latest) for row in rows]

    def earliest(self, need: Need) -> Spot | None:
        """When and where a job of this kind first fits, on as few nodes as do then; None: within no known limit."""
        by_gpus = self._ready()
        best: tuple[float, FloatArray, int, int] | None = None
        for area in need.areas:
            for nodes, gpus, cpus, mem_mb in need.ways:
                ready = self._roomy(by_gpus[:, gpus - 1], cpus, mem_mb)
                if area.mask is not None:
                    ready = np.where(area.mask, ready, math.inf)
                # A cheap look first: fewer nodes than that can't be ready sooner than the best so far.
                if len(ready) < nodes or (best is not None and np.count_nonzero(ready < best[0]) < nodes):
                    continue
                if nodes == 1:
                    start = self._clamp(float(ready[ready.argmin()]))
                else:
                    soonest = ready.copy()
                    soonest.partition(nodes - 1)
                    start = self._clamp(float(soonest[nodes - 1]))
                if start < math.inf and (best is None or start < best[0]):
                    best = (start, ready, nodes, gpus)
        if best is None:
            return None
        start, ready, nodes, gpus = best
        rows: IntArray = (ready <= (start if start > self.now else FREE)).nonzero()[0]
        # Those that are fullest now hinder least who may fill a hole.
        if len(rows) > nodes:
            rows = rows[self.floor.n_free[rows].argsort(kind="stable")[:nodes]]
            rows.sort()
        return start, dict.fromkeys(rows.tolist(), gpus)

    def _roomy(self, ready: FloatArray, cpus: int, mem_mb: int) -> FloatArray:
        """(N,) the same times, or later ones where CPUs or memory come free later."""
        if self.floor.gpus_decide:
            return ready
        cpus_free, mem_free = self.floor.cpus_free, self.floor.mem_free
        for row, (kept_cpus, kept_mb) in self._kept_room.items():
            if cpus_free is self.floor.cpus_free:
                cpus_free, mem_free = cpus_free.copy(), mem_free.copy()
            cpus_free[row] -= kept_cpus
            mem_free[row] -= kept_mb
        short = cpus_free < cpus
        if mem_mb:
            short |= mem_free < mem_mb
        if not short.any():
            return ready
        ready = ready.copy()
        for row in np.flatnonzero(short).tolist():
            cpus_then, mem_then, at = int(cpus_free[row]), int(mem_free[row]), math.inf
            for end, more_cpus, more_mb in sorted(self._releases.get(row, {}).values()):
                cpus_then, mem_then = cpus_then + more_cpus, mem_then + more_mb
                if cpus_then >= cpus and mem_then >= mem_mb:
                    at = max(end, self.now + 1.0)
                    break
            ready[row] = max(ready[row], at)
        return ready

    def earliest_odd(self, job: Job) -> Spot | None:
        """The same for a job that no even split can express, by trying Slurm's first fit at each time of release."""
        released = {max(r[0], self.now + 1.0) for releases in self._releases.values() for r in releases.values()}
        times = sorted({t for t in np.unique(self.times()).tolist() if t < math.inf} | released)
        low, high = 0, len(times)
        while low < high:
            middle = (low + high) // 2
            if first_fit(job, self.at(times[middle])) is None:
                low = middle + 1
            else:
                high = middle
        where = first_fit(job, self.at(times[low])) if low < len(times) else None
        if where is None:
            return None
        index = self.floor.cluster.node_index
        return times[low], {index[name]: len(slots) for name, slots in zip(where.nodes, where.gpus, strict=True)}

    def roomiest(self, need: Need) -> Spot | None:
        """The nodes on which it lacks least, for a job whose start nobody can tell: they are kept clear for it."""
        floor, whole, endless = self.floor, self.floor.emptied(), np.isinf(self.times())
        for area in need.areas:
            for nodes, gpus, cpus, mem_mb in need.ways:
                rows = whole.room(area.mask, gpus, cpus, mem_mb).nonzero()[0]
                if len(rows) < nodes:
                    continue
                free = (floor.free & floor.usable)[rows].sum(axis=1)
                ending = (floor.usable & ~endless)[rows].sum(axis=1)
                order = np.lexsort((rows, -np.minimum(free, gpus), -np.minimum(ending, gpus)))
                return math.inf, dict.fromkeys(sorted(rows[order[:nodes]].tolist()), gpus)
        return None
