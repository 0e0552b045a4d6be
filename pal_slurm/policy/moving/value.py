"""`value`: moves whose predicted gain exceeds what they cost, by a margin; within a pool or to another. Pure.

Who starts, and where, is decided as if nobody could be moved; where nobody starts, this looks at who runs and finds the
best first: those whose going makes room for a job that waits (rooms.py); to free GPUs that are better or closer
together; jobs that exchange their GPUs (exchange.py). No move of a plan waits for another one, but of those that
exchange. A mover takes GPUs that are kept for a waiting job only where it puts off neither start of that job: the one
that time limits promise, and the one that is expected. A gain is time: what the job's next two hours, or less where it
ends sooner, would be shorter by. Its rest is unknown: a job that has run for long is taken to run for as long again,
but not beyond what jobs use of their limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pal_slurm.model import (
    Action,
    App,
    Decision,
    Factors,
    FloatArray,
    Gpus,
    Job,
    Knowledge,
    MoveTerms,
    Placement,
    Reason,
    RunTimes,
    Snapshot,
    Speeds,
    Tier,
    flat,
    speeds_of,
)
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.moving.exchange import exchanges
from pal_slurm.policy.moving.gathering import Gatherings
from pal_slurm.policy.moving.models import Between
from pal_slurm.policy.moving.rooms import Rooms
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.plan import NOTHING_KEPT, KeptForWaiting, Room
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import Placer

MOST_S = 7_200.0  # beyond that nobody knows what will be
LEAST_S = 1_800.0


@dataclass(frozen=True, slots=True)
class MayMove:
    """A running job that may be moved, and what that would cost it."""

    job: Job
    cost_s: float
    app: App | None = None  # None: the one that its hint names
    idle_s: float = 0.0  # for so long free GPUs that it goes to stand idle, while it saves

    @property
    def to_free_s(self) -> float:
        """What it costs to go to free GPUs, in seconds of as many as it has."""
        return self.cost_s + self.idle_s


@dataclass(frozen=True, slots=True)
class ForRoom:
    """A job that waits because nothing fits it."""

    job: Job
    until: float | None = None  # when it would probably start without any move
    app: App | None = None


class Holds(NamedTuple):
    """What does not change while a job runs where it runs. Without `now` it can't be moved."""

    mover: MayMove
    of: tuple[Speeds, Needs]  # as these tell
    app: App
    need: Need | None = None
    gpus: Gpus = ()
    rows: tuple[int, ...] = ()
    model: int = 0
    now: Factors | None = None


@dataclass(frozen=True, slots=True)
class RunsNow:
    """How it runs now."""

    mover: MayMove
    app: App
    need: Need
    gpus: Gpus
    model: int
    now: Factors
    rest_s: float
    late: bool = False  # with GPUs that are kept for the first job that waits, it would put off the start of that job
    on_kept: bool = False  # of these it has some

    @property
    def job(self) -> Job:
        return self.mover.job

    @property
    def step(self) -> float:
        return self.now.step_time

    def gain(self, step: float) -> float:
        return self.rest_s * (1.0 - step / self.step)

    def could_win(self, score: float, base: float, comm: float) -> float:
        """At most, on GPUs that are not better than that."""
        slower = base / self.now.base
        return self.rest_s * (1.0 - slower * score * comm / (self.now.worst_score * self.now.comm))


def rest_of(job: Job, app: App, now: float, run_times: RunTimes, slower: float = 1.0) -> float:
    """The time over which a gain counts. `slower`: than on the GPUs for which run times are told."""
    ran = 0.0 if job.start is None else now - job.start
    rest = min(MOST_S, slower * run_times.of(job, app.name).rest(ran / slower))
    return rest if job.end is None else min(rest, max(0.0, job.end - now))


@dataclass
class ByValue:
    """One look for moves."""

    view: Snapshot
    knowledge: Knowledge
    placer: Placer
    margin: float  # gain over cost, at least
    most: int  # moves
    waits: Sequence[ForRoom] = ()  # whose turn it is, in their order
    run_times: RunTimes = field(default_factory=RunTimes)
    kept: KeptForWaiting = NOTHING_KEPT
    floor: Floor | None = None  # what is free, where somebody keeps that; it is as it was after the look
    crowded: bool = False  # jobs wait: what is free of another GPU model is not for those who run
    held: dict[int, Holds] = field(default_factory=dict)  # by job, from the last look, where somebody keeps that
    found: list[Decision] = field(default_factory=list)

    def moves(self, movers: Sequence[MayMove]) -> list[Decision]:
        cluster, view = self.view.cluster, self.view
        self.speeds = speeds_of(cluster, self.knowledge.scores)
        self.between = Between(cluster, self.speeds)
        made = self.floor or Floor(cluster, self.knowledge, now=view.taken, reservations=view.reservations)
        self.on, restore = made, made.saved()
        self.on.earmarks(self.kept.earmark)
        self._kept_now = dict(self.kept.room)
        self._free: dict[tuple[str, int], FloatArray] = {}  # by class and model: what is free, best first
        self._ranked: dict[tuple[str, int], FloatArray] = {}  # the same node by node
        self._nodes: dict[tuple[str, int, int], float] = {}  # and for how many GPUs: the best node
        self._places: dict[tuple[Need, int, bool], tuple[int, Placement | None]] = {}
        try:
            self._movers = movers
            self._make_room()
            self._to_free_gpus(self._left())
            self._keep({})
            self._gather(self._left())
            self._exchange(self._left())
        finally:
            self._keep({})
            restore()
        return self.found

    def _left(self) -> list[RunsNow]:
        taken = {d.job for d in self.found}
        return [s for s in self._standing if s.job.id not in taken]

    @cached_property
    def _standing(self) -> list[RunsNow]:
        """Worked out where somebody may go: most looks end before."""
        return [s for mover in self._movers if (s := self._runs_now(mover)) is not None]

    def _runs_now(self, mover: MayMove) -> RunsNow | None:
        held = self.held.get(mover.job.id)
        if held is None or held.mover is not mover or held.of != (self.speeds, self.on.needs):
            held = self.held[mover.job.id] = self._holds(mover)
        if held.now is None or held.need is None:
            return None
        job, app = mover.job, held.app
        slower = held.now.step_time / min(app.base.values(), default=1.0)
        rest_s, late = rest_of(job, app, self.view.taken, self.run_times, slower), self._late(mover, app, slower)
        on_kept = bool(self.kept.room) and not self.kept.room.keys().isdisjoint(held.rows)
        return RunsNow(mover, app, held.need, held.gpus, held.model, held.now, rest_s, late, on_kept)

    def _holds(self, mover: MayMove) -> Holds:
        job, cluster = mover.job, self.view.cluster
        app = mover.app or self.knowledge.apps.get(job.hint.app, job.user)
        none = Holds(mover, (self.speeds, self.on.needs), app)
        need = self.on.needs.of(job)
        if need is None or not need.ways or not set(job.nodes) <= cluster.node_index.keys():
            return none
        gpus = flat(Placement(job.nodes, job.gpus, exact=False), cluster)
        models = {int(cluster.gpu_model.reshape(-1)[g]) for g in gpus}
        now = self.speeds.factors(app, gpus)
        if len(models) > 1 or now.step_time <= 0:
            return none
        rows = tuple(cluster.node_index[name] for name in job.nodes)
        return Holds(mover, none.of, app, need, gpus, rows, models.pop(), now)

    def _late(self, mover: MayMove, app: App, slower: float) -> bool:
        """Whether the first job that waits would start later, by limits or as is expected, if this had its GPUs."""
        job, now = mover.job, self.view.taken
        last = math.inf if job.end is None else job.end + mover.cost_s
        left = slower * self.run_times.of(job, app.name).at_most - (0.0 if job.start is None else now - job.start)
        probably = min(last, now + mover.cost_s + left) if left > 0 else last
        return last > self.kept.promised or probably > self.kept.expected

    def _propose(self, s: RunsNow, where: Placement, gain: float, reason: Reason, **terms: Any) -> None:
        step = self.speeds.step(s.app, flat(where, self.view.cluster))
        cost = s.mover.cost_s if "partner" in terms else s.mover.to_free_s
        said = MoveTerms(cost, gain, s.step, **terms)
        self.found.append(Decision(s.job.id, None, Action.MOVE, reason, where, step, terms=said))

    # room for who waits

    def _make_room(self) -> None:
        for head in self.waits:
            need = self.on.needs.of(head.job)
            app = head.app or self.knowledge.apps.get(head.job.hint.app, head.job.user)
            if need is None or self.placer.place(head.job, app, self.on) is not None:
                continue
            if self.on.total() < need.gpus:
                return  # whoever made way would find no room himself
            sooner = LEAST_S if head.until is None else min(MOST_S, max(0.0, head.until - self.view.taken))
            rooms = Rooms(self.on, self.placer, self.between, self.margin, self._standing)
            room = rooms.best(need, self.most - len(self.found), sooner * need.shape.least_gpus)
            if room is not None:
                saved = sooner * need.shape.least_gpus / sum(len(s.gpus) for s, _, _ in room.moves)
                for s, where, step in room.moves:
                    self.on.hold(s.job, where)
                    self._propose(s, where, s.gain(step) + saved, Reason.MAKES_ROOM, makes_room_for=head.job.id)
            return

    # to free GPUs

    def _to_free_gpus(self, standing: Sequence[RunsNow]) -> None:
        """Those that run worst first; what one takes is no longer there for the next."""
        hopes = [(self._hope(s), s) for s in standing if self._may_win(s)]
        for hope, s in sorted(hopes, key=lambda pair: -pair[0]):
            if len(self.found) >= self.most or hope <= 0:
                return
            self._keep(self._kept_now if s.late else {})
            where = self._elsewhere(s)
            there = () if where is None else flat(where, self.view.cluster)
            if where is None or not self.between.may_go(s, there, own=self.crowded):
                continue
            gain = s.gain(self.between.step(s, there))
            if gain > self.margin * s.mover.to_free_s:
                self.on.hold(s.job, where)
                self._uses(where, s)
                self._propose(s, where, gain, Reason.BETTER_GPUS)

    # what is kept for a job that waits

    def _keep(self, kept: dict[int, Room]) -> None:
        """Places are looked for beside this from now on."""
        if self.on.kept is not kept and (kept or self.on.kept):
            self.on.kept = kept
            self.on.found.clear()
            self.on.unfit.clear()

    def _uses(self, where: Placement, s: RunsNow) -> None:
        """It stays beyond that start: there is less beside what is kept."""
        if not s.late:
            return
        for name, slots in zip(where.nodes, where.gpus, strict=True):
            row = self.view.cluster.node_index[name]
            if row in self._kept_now:
                gpus, cpus, mem_mb = self._kept_now[row]
                self._kept_now[row] = (gpus - len(slots), cpus, mem_mb)

    def _hope(self, s: RunsNow) -> float:
        """GPU seconds that it could win at most, what that must pay for taken off."""
        comm = min(s.app.comm)
        most = max(s.could_win(self._best_free(s, model), base, comm) for model, base in self._bases(s))
        return len(s.gpus) * (most - self.margin * s.mover.to_free_s)

    def _may_win(self, s: RunsNow) -> bool:
        """Whether a move could pay, by a closer look at what is free: for most there is nothing to search for."""
        alone = len(s.need.ways) == 1 and s.need.ways[0][0] == 1 == len(s.job.nodes)
        comm = min(s.app.comm[s.need.narrowest :]) if len(s.gpus) > 1 else s.app.comm[Tier.GPU]
        best = self._best_node if alone else self._best_free
        pays = self.margin * s.mover.to_free_s * (1.0 - 1e-9)
        return any(s.could_win(best(s, model), base, comm) > pays for model, base in self._bases(s))

    def _bases(self, s: RunsNow) -> Iterable[tuple[int, float]]:
        return ((s.model, s.now.base),) if self.crowded else self.between.bases(s)

    def _best_node(self, s: RunsNow, model: int) -> float:
        """The same for one that runs on one node: so many are free on none with a better worst one."""
        n = len(s.gpus)
        key = (s.app.cls, model, n)
        if key not in self._nodes:
            self._nodes[key] = float(self._by_node(s.app.cls, model)[:, n - 1].min())
        best = self._nodes[key]
        row = s.gpus[0] // self.view.cluster.width
        if n > 1 and model == s.model and self.on.n_free[row]:
            own = self.speeds.values(s.app.cls)[list(s.gpus)]
            best = min(best, float(np.sort(np.concatenate([self._by_node(s.app.cls, model)[row], own]))[n - 1]))
        return best

    def _by_node(self, cls: str, model: int) -> FloatArray:
        """(N, S) scores of what is free of a model, the best of each node first; infinity: it has no more."""
        if (cls, model) not in self._ranked:
            shape = self.on.free.shape
            open_ = self.on.free & (self.view.cluster.gpu_model == model)
            self._ranked[cls, model] = np.sort(np.where(open_, self.speeds.values(cls).reshape(shape), np.inf), axis=1)
        return self._ranked[cls, model]

    def _best_free(self, s: RunsNow, model: int) -> float:
        """No GPUs of a model that it could have now are better than that; infinity: there are none."""
        key = (s.app.cls, model)
        if key not in self._free:
            of_model = self.view.cluster.gpu_model.reshape(-1) == model
            self._free[key] = np.sort(self.speeds.values(s.app.cls)[self.on.free.reshape(-1) & of_model])
        free, n = self._free[key], len(s.gpus)
        if n > 1 and model == s.model:
            free = np.sort(np.concatenate([free[:n], self.speeds.values(s.app.cls)[list(s.gpus)]]))
        return float(free[n - 1]) if len(free) >= n else np.inf

    def _elsewhere(self, s: RunsNow) -> Placement | None:
        """The best of what is free, its own GPUs among it."""
        if len(s.gpus) == 1 and isinstance(self.placer, Ranking):  # which does not ask whose job it is
            key, state = (s.need, id(s.app), s.late), len(self.on.changed)
            if key not in self._places or self._places[key][0] != state:
                self._places[key] = state, self.placer.place(s.job, s.app, self.on)
            return self._places[key][1]
        if len(s.gpus) == 1:
            return self.placer.place(s.job, s.app, self.on)
        held = Placement(s.job.nodes, s.job.gpus, exact=False)
        self.on.give(s.job, held)
        where = self.placer.place(s.job, s.app, self.on)
        self.on.hold(s.job, held)
        return where

    # those that are brought together, and those that exchange their GPUs

    def _gather(self, standing: Sequence[RunsNow]) -> None:
        gatherings = Gatherings(standing, self.view, self.between, self.margin, self.kept.room.keys())
        for group in gatherings.groups(self.most - len(self.found)):
            for goes in group:
                partner, *further = goes.holders
                terms = {"partner": partner, "further": tuple(further)}
                self._propose(goes.mover, gatherings.where(goes), goes.gain_s, Reason.BETTER_GPUS, **terms)

    def _exchange(self, standing: Sequence[RunsNow]) -> None:
        most = self.most - len(self.found)
        heads = [need for waits in self.waits if (need := self.on.needs.of(waits.job)) is not None]
        heads = heads if len(heads) == len(self.waits) else []
        for ring in exchanges(standing, self.view, self.between, self.margin, most, self.on.n_free, heads):
            for mover, holder, gain in ring:
                where = Placement(holder.job.nodes, holder.job.gpus, exact=self.view.cluster.slots)
                self._propose(mover, where, gain, Reason.BETTER_GPUS, partner=holder.job.id)
