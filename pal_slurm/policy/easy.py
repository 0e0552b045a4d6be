"""EASY: nobody who starts delays the first that waits. In: jobs in their order. Out: the floor each may start on.

The first job that does not fit gets a reservation: the earliest start that time limits promise, and on some nodes as
many GPUs, CPUs and MB as it needs then. Later jobs may start there only if they end before that start, or leave it
as much. Where no start can be promised (jobs without a limit are in the way), the nodes on which it lacks least are
kept clear altogether. Jobs that wait for other partitions don't compete with it and have reservations of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pal_slurm.model import Job, Placement
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.horizon import Horizon, Spot
from pal_slurm.policy.needs import Need

SOONER = 0.7  # of the way from the start that limits promise to the one that is expected
PLENTY = 1 << 62  # CPUs or MB


@dataclass(frozen=True, slots=True)
class Reserved:
    """Kept for a waiting job. `start` infinity: nobody can tell when."""

    job: int
    start: float
    nodes: tuple[str, ...]  # on each so many GPUs: those that are free soonest, but any will do
    cleared: Placement | None = None  # where nobody can tell when: these, for nobody else


class Easy:
    """The reservations of one plan."""

    def __init__(self, floor: Floor, horizon: Horizon, now: float, most: int, by_estimate: bool = False) -> None:
        self.by_estimate = by_estimate
        self.floor, self.now = floor, now
        self.reserved: list[Reserved] = []
        self.soonest = math.inf  # the start of the first reservation, for those who start now
        self.promised = self.expected = math.inf  # the same by time limits, and by what jobs probably run
        self.held: Floor | None = None  # for those who stay beyond it
        self.cleared: list[tuple[Job, Placement]] = []
        self._horizon = horizon
        self._unnoted: list[tuple[Job, dict[int, int], float]] = []  # reservations that the horizon does not know yet
        self._most = most
        self._hopeless: set[Need] = set()
        self._count: dict[tuple[str, ...], int] = {}

    def floor_for(self, job: Job) -> Floor:
        """Jobs that end before the first reservation starts may use what is reserved."""
        if self.held is None or limit(job) <= self.soonest - self.now:
            return self.floor
        return self.held

    def started(self, job: Job, placement: Placement) -> None:
        """It took this; who stays beyond the start of a reservation leaves less beside it."""
        if self.held is None or limit(job) <= self.soonest - self.now:
            return
        kept, nodes = self.held.kept, len(placement.nodes)
        for name, slots in zip(placement.nodes, placement.gpus, strict=True):
            row = self.floor.cluster.node_index[name]
            if row in kept:
                gpus, cpus, mem_mb = kept[row]
                less_cpus, less_mb = self.floor.demand(job, nodes, row)
                kept[row] = (gpus - len(slots), cpus - less_cpus, mem_mb - less_mb)

    @property
    def kept(self) -> dict[int, tuple[int, int, int]]:
        """What those who stay beyond the start of a reservation may have, by row."""
        return {} if self.held is None else dict(self.held.kept)

    def wants(self, partitions: tuple[str, ...]) -> bool:
        """Whether the next of this queue that does not fit gets a reservation."""
        return self._count.get(partitions, 0) < self._most

    def note(self) -> None:
        """The next reservation, and a forecast, is made beside those that there are; mostly there is none."""
        for job, spots, end in self._unnoted:
            self._horizon.keep(job, spots, end)
        self._unnoted.clear()

    def hopeless(self, need: Need) -> bool:
        return need in self._hopeless

    def reserve(self, job: Job, need: Need, *, plain: bool) -> Reserved | None:
        """Keep room for a job that does not fit; None: it can't run here as things are. `plain`: Slurm's choice."""
        if need in self._hopeless:
            return None
        self.note()
        odd = job.exclusive or not need.ways
        spot = self._horizon.earliest_odd(job) if odd or (plain and job.shape is None) else self._horizon.earliest(need)
        if spot is None and not odd:
            # Where no even split fits on the empty cluster either, Slurm gives an uneven one.
            spot = self._horizon.roomiest(need) or self._horizon.earliest_odd(job)
        if spot is None:
            self._hopeless.add(need)
            return None
        self._counts(job)
        return self._keep(job, spot)

    def respect(self, job: Job, nodes: frozenset[str], gpus: int, start: float) -> None:
        """Keep what Slurm has planned for a job that is not ours."""
        index = self.floor.cluster.node_index
        rows = sorted(index[name] for name in nodes if name in index)
        if job.lease is not None:
            self._counts(job)  # one of ours that was let go: it heads the queue still
        if rows:
            self.note()
            have = self.floor.usable.sum(axis=1)
            self._keep(job, (max(start, self.now), {row: min(gpus, int(have[row])) for row in rows}))

    def _counts(self, job: Job) -> None:
        self._count[job.partitions] = self._count.get(job.partitions, 0) + 1

    def _keep(self, job: Job, spot: Spot) -> Reserved:
        start, spots = spot
        names = tuple([self.floor.cluster.node_names[row] for row in spots])
        if start == math.inf:
            slots = self._horizon.last_slots(spots)
            cleared = Placement(names, tuple(tuple(slots[row]) for row in spots), False)
            self.cleared.append((job, cleared))
            kept = Reserved(job.id, start, names, cleared)
        else:
            self._hold_back(job, start, spots)
            kept = Reserved(job.id, start, names)
        self._unnoted.append((job, spots, start + limit(job)))
        self.reserved.append(kept)
        return kept

    def _hold_back(self, job: Job, start: float, spots: dict[int, int]) -> None:
        """Who stays beyond its start leaves it as much as it needs then."""
        held = self.held = self.held or self.floor.beside()
        nodes, rows = len(spots), list(spots)
        for row, free in zip(rows, self._horizon.gpus_at(rows, start), strict=True):
            new = (free - spots[row], PLENTY, PLENTY)
            if not self.floor.gpus_decide:
                cpus, mem_mb = self.floor.demand(job, nodes, row)
                cpus_then, mem_then = self._horizon.spare(row, start)
                new = (free - spots[row], cpus_then - cpus, mem_then - mem_mb)
            old = held.kept.get(row)
            held.kept[row] = new if old is None else (min(old[0], new[0]), min(old[1], new[1]), min(old[2], new[2]))
        held.found.clear()
        # Jobs end before their limits: who stays beyond that is in its way.
        sooner_s = self._horizon.sooner_by(spots) if self.by_estimate else 0.0
        self.soonest = min(self.soonest, start - SOONER * sooner_s)
        self.promised, self.expected = min(self.promised, start), min(self.expected, start - sooner_s)


def limit(job: Job) -> float:
    return math.inf if job.time_limit_s is None else float(job.time_limit_s)
