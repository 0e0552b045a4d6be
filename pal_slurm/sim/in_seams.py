"""A composition of the daemon's own seams as a scheduler of the engine. In: arrivals and ends. Out: starts.

The floor, the order and the placement are the very objects that pald uses; the floor lives as long as the run does.
Jobs that start run to their end (nothing is stopped). Holes are filled as EASY backfill does: the head of the line gets
a reservation from the time limits of what runs, and a later job starts only where that reservation stands. A job whose
patience bids it wait is passed over, and asked again when something better comes free or its patience ends.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pal_slurm.model import App, Cluster, Gpus, Job, Knowledge, Placement, ScoreTable, Speeds, Tier, comm_of
from pal_slurm.policy.composition import Composition
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.patience.none import NoPatience
from pal_slurm.policy.seams import Offer, Progress
from pal_slurm.sim.engine import NEVER, Run, Stage
from pal_slurm.sim.line import Key, Line, Place
from pal_slurm.sim.workload import Work

LOOK_S = 30.0  # pald looks at least so often, and then sees whose patience has ended


class Release(NamedTuple):
    """When a running job's GPUs come free at latest."""

    at: float
    job: int
    nodes: tuple[tuple[int, int], ...]  # (row, GPUs there)


class DeclinedOffer(NamedTuple):
    """An offer that a job declined."""

    app: App
    worst: float  # it is asked again when a better GPU than the worst of these comes free,
    together: int  # or when so many are free on one node (0: that is not what it waits for),
    until: float  # or when its patience ends


class Held(NamedTuple):
    job: Job
    placement: Placement
    release: Release


class HeadReservation(NamedTuple):
    """The head's reservation: from when, and what is free on each node then."""

    at: float
    free: list[int]
    tally: list[int]  # how many nodes have no GPU free, how many one ...
    spare: int  # GPUs beyond those that the head needs

    def less(self, nodes: Iterable[tuple[int, int]], gpus: int) -> HeadReservation:
        """When somebody who stays beyond it takes these (row, GPUs)."""
        free, tally = self.free.copy(), self.tally.copy()
        for row, taken in nodes:
            tally[free[row]] -= 1
            free[row] -= taken
            tally[free[row]] += 1
        return HeadReservation(self.at, free, tally, self.spare - gpus)


class InSeams:
    """Order and placement by the composition, EASY backfill if it says so."""

    restless = False

    def __init__(self, name: str, cluster: Cluster, known: ScoreTable, composition: Composition) -> None:
        self.name = name
        self._cluster = cluster
        self.wake_at = NEVER
        self._composition = composition
        self._patient = not composition.fill.strict and not isinstance(composition.patience, NoPatience)
        self._known = Speeds(cluster, known)
        self._since: dict[int, float] = {}  # when each job first declined one
        self._refused: dict[Key, DeclinedOffer] = {}  # who declined and is not to be asked now
        self._soonest = NEVER  # when the first of them gives in
        self._offered: tuple[Placement, App, Tier, float, float, int] | None = None  # last, and what it is worth there
        self._freed: list[int] = []  # GPUs that came free since
        self._scores = known
        self._ideal: Floor | None = None  # nothing is taken there, ever
        self._best: dict[tuple[int, int, str], float] = {}
        self._floor = Floor(cluster, Knowledge(known))
        self._line = Line()
        self._free = cluster.n_gpus
        self._held: dict[int, Held] = {}
        self._releases: list[Release] = []
        self._ways: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}  # kind of job -> (nodes, GPUs on each)
        self._spans: dict[tuple[int, int], Tier] = {}

    def arrive(self, run: Run) -> None:
        progress = Progress(0.0, run.work.ideal_s())
        limit_s = math.inf if run.work.limit_s is None else run.work.limit_s
        self._line.add(self._composition.order.key(run.job, progress), limit_s, run)

    def ended(self, run: Run, gpus: Gpus) -> None:
        held = self._held.pop(run.work.id)
        self._floor.give(held.job, held.placement)
        self._free += len(gpus)
        if self._refused:
            self._freed.extend(gpus)
        del self._releases[bisect_left(self._releases, held.release)]

    def learn(self, known: ScoreTable) -> None:
        self._known, self._scores = Speeds(self._cluster, known), known
        self._ideal, self._best = None, {}
        self._floor = Floor(self._cluster, Knowledge(known))
        for held in self._held.values():
            self._floor.take(held.job, held.placement)

    def act(self, stage: Stage) -> None:
        self.wake_at = NEVER
        if not self._free:
            return
        self._ask_again(stage.now)
        head = self._line.head(self._refused)
        while head is not None and head.run.work.gpus <= self._free:
            placement = self._place(head)
            if placement is None:
                break
            if not self._declines(head, placement, stage.now):
                self._start(stage, head, placement)
            head = self._line.head(self._refused)
        if head is not None and self._free and not self._composition.fill.strict:
            self._fill(stage, head)
        self.wake_at = self._soonest

    def _ask_again(self, now: float) -> None:
        """Who declined, where something better than the offer is free since, or its patience has ended."""
        if not self._freed and now < self._soonest:
            return
        best: dict[str, float] = {}
        most = int(self._floor.n_free.max())
        for key, (app, worst, together, until) in list(self._refused.items()):
            if app.cls not in best:
                best[app.cls] = min(
                    (self._known.factors(app, (gpu,)).worst_score for gpu in self._freed), default=math.inf
                )
            better = most >= together if together else best[app.cls] < worst
            if better or until <= now:
                del self._refused[key]
        self._freed.clear()
        self._soonest = min((refused.until for refused in self._refused.values()), default=NEVER)

    def _fill(self, stage: Stage, head: Place) -> None:
        if self._line.smallest() > self._free:
            return
        reserved = self._reserve(head.run.work, stage.now)
        window_s = reserved.at - stage.now
        fillers = self._line.fillers(head.key, window_s, self._refused)
        barred: set[int] = set()  # sizes that can't be placed now, or not without delaying the head
        while (filler := fillers.next(self._free, reserved.spare, barred)) is not None:
            placement = self._place(filler)
            if placement is not None and self._declines(filler, placement, stage.now):
                continue
            if placement is not None and filler.limit_s > window_s:
                left = reserved.less(self._nodes(placement), filler.run.work.gpus)
                if self._fits(head.run.work, left.tally):
                    reserved = left
                else:
                    placement = None
            if placement is None:
                barred.add(filler.run.work.gpus)
            else:
                self._start(stage, filler, placement)

    def _declines(self, place: Place, placement: Placement, now: float) -> bool:
        """Whether the job's patience bids it wait for better GPUs."""
        if not self._patient:
            return False
        run, app = place.run, place.run.work.app
        if self._offered is None or self._offered[0] is not placement or self._offered[1] is not app:
            gpus = self._flat(placement)
            _, worst, _, tier = self._known.factors(app, gpus)
            span_cost = float(comm_of(app, tier)) / float(comm_of(app, self._narrowest(run)))
            self._offered = (placement, app, tier, worst, span_cost, self._floor.faster(app.cls, worst))
        _, _, tier, worst, span_cost, faster = self._offered
        since = self._since.get(run.work.id, now)
        offer = Offer(tier, worst * span_cost, now - run.work.submit, now - since, faster, span_cost)
        wait = self._composition.patience.waits(run.job, offer)
        if wait is not None:
            over_best = self._known.step(app, self._flat(placement)) / self._best_there_is(run)
            wait = self._composition.patience.waits(run.job, offer._replace(slowdown=min(offer.slowdown, over_best)))
        if wait is None:
            return False
        self._since.setdefault(run.work.id, now)
        until = math.ceil((since + wait.most_s) / LOOK_S) * LOOK_S
        apart = span_cost > 1.0
        together = run.work.gpus if apart and run.work.gpus <= self._cluster.width else 0
        self._refused[place.key] = DeclinedOffer(app, math.inf if apart else worst, together, until)
        self._soonest = min(self._soonest, until)
        return True

    def _best_there_is(self, run: Run) -> float:
        """Its step time if everything were free: waiting brings nothing beyond that."""
        app = run.work.app
        kind = (run.work.gpus, run.work.per_node, app.name)
        if kind not in self._best:
            self._ideal = self._ideal or Floor(self._cluster, Knowledge(self._scores))
            placement = self._composition.placement.place(run.job, app, self._ideal)
            self._best[kind] = math.inf if placement is None else self._known.step(app, self._flat(placement))
        return self._best[kind]

    def _reserve(self, head: Work, now: float) -> HeadReservation:
        """The first moment at which the head fits if every running job uses its whole time limit."""
        free: list[int] = self._floor.n_free.tolist()
        tally: list[int] = np.bincount(self._floor.n_free, minlength=self._cluster.width + 1).tolist()
        count, need = self._free, head.gpus
        for i, release in enumerate(self._releases):
            for row, gpus in release.nodes:
                before = free[row]
                tally[before] -= 1
                tally[before + gpus] += 1
                free[row] = before + gpus
                count += gpus
            together = i + 1 < len(self._releases) and self._releases[i + 1].at == release.at
            if count >= need and not together and self._fits(head, tally):
                return HeadReservation(max(release.at, now), free, tally, count - need)
        return HeadReservation(math.inf, free, tally, 0)

    def _fits(self, work: Work, tally: list[int]) -> bool:
        """Whether the job's GPUs can be asked for: equal numbers on some nodes."""
        kind = (work.gpus, work.per_node)
        if kind not in self._ways:
            shape = work.as_job().shape
            assert shape is not None
            self._ways[kind] = tuple(shape.ways(self._cluster.width))
        return any(sum(tally[gpus:]) >= nodes for nodes, gpus in self._ways[kind])

    def _narrowest(self, run: Run) -> Tier:
        """The span that it would have on an idle cluster."""
        kind = (run.work.gpus, run.work.per_node)
        if kind not in self._spans:
            need = self._floor.needs.of(run.job)
            assert need is not None  # simulated jobs have no constraints
            self._spans[kind] = need.narrowest
        return self._spans[kind]

    def _place(self, place: Place) -> Placement | None:
        work = place.run.work
        return self._composition.placement.place(place.run.job, work.app, self._floor)

    def _start(self, stage: Stage, place: Place, placement: Placement) -> None:
        run = place.run
        job = run.job
        self._line.remove(place)
        self._floor.take(job, placement)
        nodes = self._nodes(placement)
        release = Release(stage.now + place.limit_s, run.work.id, nodes)
        insort(self._releases, release)
        self._held[run.work.id] = Held(job, placement, release)
        self._free -= run.work.gpus
        self._since.pop(run.work.id, None)
        stage.start(run, self._flat(placement))

    def _flat(self, placement: Placement) -> Gpus:
        width, index = self._cluster.width, self._cluster.node_index
        return tuple(
            sorted(
                [index[n] * width + s for n, slots in zip(placement.nodes, placement.gpus, strict=True) for s in slots]
            )
        )

    def _nodes(self, placement: Placement) -> tuple[tuple[int, int], ...]:
        index = self._cluster.node_index
        return tuple((index[n], len(slots)) for n, slots in zip(placement.nodes, placement.gpus, strict=True))
