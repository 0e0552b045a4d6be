"""EASY backfill. In: jobs in their order, what runs and until when. Out: the floor that each may start on.

The first job that does not fit gets a reservation: the earliest start that time limits promise, and the GPUs, CPUs and
memory that it would get then. Later jobs may use those only if they end before that start. Where no start can be
promised (jobs without a limit are in the way), the nodes on which it lacks least are kept clear altogether.
Jobs that wait for other partitions don't compete with it and have reservations of their own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pal_slurm.model import App, Job, Placement
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.horizon import Horizon
from pal_slurm.policy.needs import Need
from pal_slurm.policy.seams import Placer


@dataclass(frozen=True, slots=True)
class Reserved:
    """Kept for a waiting job. `start` infinity: nobody can tell when."""

    job: int
    start: float
    placement: Placement


class Backfill:
    def __init__(self, floor: Floor, now: float, running: Iterable[Job], most: int = 1) -> None:
        self.floor = floor
        self.now = now
        self.reserved: list[Reserved] = []
        self._most = most
        self._running = running
        self._started: list[tuple[Job, Placement]] = []
        self._horizon: Horizon | None = None
        self._held: Floor | None = None  # without what is reserved
        self._soonest = math.inf
        self._hopeless: set[Need] = set()
        self._count: Counter[tuple[str, ...]] = Counter()

    def floor_for(self, job: Job) -> Floor:
        """Jobs that end before the first reservation starts may use what is reserved."""
        if self._held is None or self._end(job) <= self._soonest:
            return self.floor
        return self._held

    def start(self, job: Job, placement: Placement) -> None:
        self.floor.take(job, placement)
        self._note(job, placement)

    def expect(self, job: Job, placement: Placement) -> None:
        """A job that was released already: Slurm may be starting it at this moment."""
        self.floor.hold(job, placement)
        self._note(job, placement)

    def _note(self, job: Job, placement: Placement) -> None:
        self._started.append((job, placement))
        if self._held is not None:
            self._held.hold(job, placement)

    def emptied(self) -> Floor:
        """The floor if everything that can be used at all were free."""
        return self._up_to_date().at(self.floor, math.inf)

    def wants_reservation(self, job: Job) -> bool:
        return self._count[job.partitions] < self._most

    def reserve(self, job: Job, app: App, placer: Placer, plain: bool) -> Reserved | None:
        """Keep room for a job that does not fit; None: it can't run here as things are. `plain`: Slurm's choice."""
        floor, horizon = self.floor, self._up_to_date()
        need = None if plain else floor.needs.of(job)
        guess = need or floor.needs.guess(job)
        if guess in self._hopeless:
            return None
        odd = job.exclusive or not guess.ways
        start = horizon.earliest_odd(floor, job) if odd else horizon.earliest(floor, guess)
        placement: Placement | None
        if start == math.inf and not odd:
            placement = horizon.roomiest(floor, guess)
        elif need is None:
            placement = first_fit(job, horizon.at(floor, start))
        else:
            placement = placer.place(job, app, horizon.at(floor, start))
        if placement is None:
            self._hopeless.add(guess)
            return None
        self._count[job.partitions] += 1
        return self._keep(job, start, placement)

    def respect(self, job: Job, nodes: frozenset[str], gpus: int, start: float) -> None:
        """Keep what Slurm has planned for a job that is not ours."""
        placement = self._up_to_date().on_planned(self.floor, nodes, gpus)
        if job.lease is not None:
            self._count[job.partitions] += 1  # one of ours that was let go: it heads the queue still
        if placement.nodes:
            self._keep(job, max(start, self.now), placement)

    def _keep(self, job: Job, start: float, placement: Placement) -> Reserved:
        floor, horizon = self.floor, self._up_to_date()
        if start == math.inf:
            for state in filter(None, (floor, self._held)):
                state.hold(job, placement)
        else:
            self._held = self._held or floor.copy()
            self._set_aside(self._held, job, placement, start)
            self._soonest = min(self._soonest, start)
        limit = math.inf if job.time_limit_s is None else float(job.time_limit_s)
        horizon.keep(floor, job, placement, start + limit)
        kept = Reserved(job.id, start, placement)
        self.reserved.append(kept)
        return kept

    def _set_aside(self, held: Floor, job: Job, placement: Placement, start: float) -> None:
        """Nobody who stays beyond `start` may have these GPUs, nor the CPUs and memory that it will need there."""
        horizon = self._up_to_date()
        for name, slots in zip(placement.nodes, placement.gpus, strict=True):
            row = held.cluster.node_index[name]
            if slots:
                held.free[row, list(slots)] = False
                held.n_free[row] = np.count_nonzero(held.free[row])
            cpus, mem_mb = held.demand(job, len(placement.nodes), row)
            cpus_then, mem_then = horizon.spare(self.floor, row, start)
            held.cpus_free[row] = min(held.cpus_free[row], cpus_then - cpus)
            held.mem_free[row] = min(held.mem_free[row], mem_then - mem_mb)
            held.changed.append(row)

    def _up_to_date(self) -> Horizon:
        if self._horizon is None:
            self._horizon = Horizon(self.floor, self.now)
            for job in self._running:
                end = math.inf if job.end is None else float(job.end)
                self._horizon.occupy(self.floor, job, Placement(job.nodes, job.gpus, False), end)
        for job, placement in self._started:
            self._horizon.occupy(self.floor, job, placement, self._end(job))
        self._started.clear()
        return self._horizon

    def _end(self, job: Job) -> float:
        return math.inf if job.time_limit_s is None else self.now + job.time_limit_s
