"""`value`: moves within a pool whose predicted gain exceeds what they cost, by a margin. Pure.

Three kinds, the best first: to free GPUs that are better or closer together; two jobs that exchange their GPUs, neither
of which is made slower; one job that goes elsewhere so that the head of the queue has room. A gain is time: what the
job's next two hours, or less where it ends sooner, would be shorter by. Its rest is unknown: a job that has run for
long is taken to run for as long again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pal_slurm.model import (
    Action,
    App,
    Decision,
    FloatArray,
    Gpus,
    Job,
    Knowledge,
    MoveTerms,
    Placement,
    Reason,
    Snapshot,
    flat,
    speeds_of,
)
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.needs import Need
from pal_slurm.policy.seams import Placer

MOST_S = 7_200.0  # beyond that nobody knows what will be
LEAST_S = 1_800.0
MOST_PAIRS = 256  # jobs of one shape, those on the worst GPUs, for which a partner is sought


@dataclass(frozen=True, slots=True)
class MayMove:
    """A running job that may be moved, and what that would cost it."""

    job: Job
    cost_s: float


@dataclass(frozen=True, slots=True)
class RunsNow:
    """How it runs now."""

    mover: MayMove
    app: App
    need: Need
    gpus: Gpus
    model: int
    step: float
    rest_s: float

    @property
    def job(self) -> Job:
        return self.mover.job

    def gain(self, step: float) -> float:
        return self.rest_s * (1.0 - step / self.step)


def rest_of(job: Job, now: float) -> float:
    """The time over which a gain counts."""
    ran = now - (job.start or now)
    left = MOST_S if job.end is None else max(0.0, job.end - now)
    return min(MOST_S, left, max(LEAST_S, ran))


@dataclass
class ByValue:
    """One look for moves."""

    view: Snapshot
    knowledge: Knowledge
    placer: Placer
    margin: float  # gain over cost, at least
    most: int  # moves
    waits: tuple[Job, ...] = ()  # those that wait for GPUs, in their order
    found: list[Decision] = field(default_factory=list)

    def moves(self, movers: Sequence[MayMove]) -> list[Decision]:
        cluster, view = self.view.cluster, self.view
        self.speeds = speeds_of(cluster, self.knowledge.scores)
        self.floor = Floor(cluster, self.knowledge, now=view.taken, reservations=view.reservations)
        standing = [s for mover in movers if (s := self._standing(mover)) is not None]
        if self.waits:
            self._make_room(standing)
        else:
            self._to_free_gpus(standing)
        taken = {d.job for d in self.found}
        self._exchange([s for s in standing if s.job.id not in taken])
        return self.found

    def _standing(self, mover: MayMove) -> RunsNow | None:
        job, cluster = mover.job, self.view.cluster
        need = self.floor.needs.of(job)
        if need is None or not need.ways or not set(job.nodes) <= cluster.node_index.keys():
            return None
        app = self.knowledge.apps.get(job.hint.app, job.user)
        gpus = flat(Placement(job.nodes, job.gpus, exact=False), cluster)
        models = {int(cluster.gpu_model.reshape(-1)[g]) for g in gpus}
        step = self.speeds.step(app, gpus)
        if len(models) > 1 or step <= 0:
            return None
        return RunsNow(mover, app, need, gpus, models.pop(), step, rest_of(job, self.view.taken))

    def _in_pool(self, s: RunsNow, where: Placement) -> bool:
        """Pools are the assignment's matter: here a job keeps its GPU model."""
        models = self.view.cluster.gpu_model.reshape(-1)
        return all(int(models[g]) == s.model for g in flat(where, self.view.cluster))

    def _propose(self, s: RunsNow, where: Placement, gain: float, reason: Reason, **terms: int) -> None:
        step = self.speeds.step(s.app, flat(where, self.view.cluster))
        said = MoveTerms(s.mover.cost_s, gain, s.step, **terms)
        self.found.append(Decision(s.job.id, None, Action.MOVE, reason, where, step, terms=said))

    # to free GPUs

    def _to_free_gpus(self, standing: Sequence[RunsNow]) -> None:
        """Those that run worst first; what one takes is no longer there for the next."""
        for s in sorted(standing, key=lambda s: -s.rest_s * s.step / max(self._ideal(s), 1e-12)):
            if len(self.found) >= self.most:
                return
            where = self.placer.place(s.job, s.app, self.floor)
            if where is None or not self._in_pool(s, where):
                continue
            gain = s.gain(self.speeds.step(s.app, flat(where, self.view.cluster)))
            if gain > self.margin * s.mover.cost_s:
                self.floor.take(s.job, where)
                self._propose(s, where, gain, Reason.BETTER_GPUS)

    def _ideal(self, s: RunsNow) -> float:
        values = self.speeds.values(s.app.cls)
        return float(values.min())

    # two that exchange their GPUs

    def _exchange(self, standing: Sequence[RunsNow]) -> None:
        shapes: dict[tuple[object, ...], list[RunsNow]] = defaultdict(list)
        for s in standing:
            if all(gpus == s.job.gpus[0] for gpus in s.job.gpus):  # else it can't be asked for
                shapes[(s.model, len(s.job.nodes), len(s.job.gpus[0]), s.job.partitions)].append(s)
        for alike in shapes.values():
            if len(alike) > 1:
                self._pairs(alike)

    def _pairs(self, alike: Sequence[RunsNow]) -> None:
        steps = self._steps(alike)
        now = np.array([s.step for s in alike])
        rest, cost = np.array([s.rest_s for s in alike]), np.array([s.mover.cost_s for s in alike])
        gain = rest[:, None] * (1.0 - steps / now[:, None])  # of i on the GPUs of j
        worst = np.argsort(-gain.max(axis=1), kind="stable")[:MOST_PAIRS]
        both = gain[worst] + gain[:, worst].T - self.margin * (cost[worst][:, None] + cost[None, :])
        both[(gain[worst] < 0) | (gain[:, worst].T < 0)] = -np.inf
        both[np.arange(len(worst)), worst] = -np.inf
        for _ in range(8 * self.most):
            row, j = divmod(int(both.argmax()), len(alike))
            i = int(worst[row])
            if both[row, j] <= 0 or len(self.found) + 2 > self.most:
                return
            both[row, j] = -np.inf
            if not self._may_exchange(alike[i], alike[j]):
                continue
            both[np.isin(worst, (i, j))] = -np.inf
            both[:, [i, j]] = -np.inf
            for one, other, won in ((alike[i], alike[j], gain[i, j]), (alike[j], alike[i], gain[j, i])):
                where = Placement(other.job.nodes, other.job.gpus, exact=self.view.cluster.slots)
                self._propose(one, where, float(won), Reason.BETTER_GPUS, partner=other.job.id)

    def _steps(self, alike: Sequence[RunsNow]) -> FloatArray:
        """Seconds per step of each on the GPUs of each; one row per application is worked out."""
        rows: dict[int, FloatArray] = {}
        for s in alike:
            if id(s.app) not in rows:
                rows[id(s.app)] = np.array([self.speeds.step(s.app, other.gpus) for other in alike])
        return np.stack([rows[id(s.app)] for s in alike])

    def _may_exchange(self, one: RunsNow, other: RunsNow) -> bool:
        """Not where one of them alone is asked first: the other one would stand still until that one has answered."""
        if bool(one.job.consent.signal) != bool(other.job.consent.signal):
            return False
        return _may_have(one, other, self.view) and _may_have(other, one, self.view)

    # room for the head of the queue

    def _make_room(self, standing: Sequence[RunsNow]) -> None:
        """The head wants GPUs of one node; a job there fits elsewhere, where the head would not."""
        head = self.waits[0]
        need = self.floor.needs.of(head)
        way = next((way for way in need.ways if way[0] == 1), None) if need is not None else None
        if (
            way is None
            or need is None
            or self.placer.place(head, self.knowledge.apps.get(head.hint.app, head.user), self.floor)
        ):
            return
        offers = sorted(self._rooms(standing, way[1], need), key=lambda offer: offer[0])
        for loss, s, where in offers[:1]:
            saved = LEAST_S * way[1]
            if saved > loss + self.margin * s.mover.cost_s * len(s.gpus):
                gain = s.gain(self.speeds.step(s.app, flat(where, self.view.cluster))) + saved / len(s.gpus)
                self._propose(s, where, gain, Reason.MAKES_ROOM, makes_room_for=head.id)

    def _rooms(self, standing: Sequence[RunsNow], gpus: int, need: Need) -> Iterator[tuple[float, RunsNow, Placement]]:
        """(GPU seconds that it costs the mover, the mover, where it would go)."""
        index, floor = self.view.cluster.node_index, self.floor
        for s in standing:
            row = index[s.job.nodes[0]]
            allowed = any(area.mask is None or area.mask[row] for area in need.areas)
            if len(s.job.nodes) != 1 or not allowed or floor.n_free[row] + len(s.gpus) < gpus:
                continue
            rest = tuple(int(slot) for slot in np.flatnonzero(floor.free[row]))
            undo = floor.clear(s.job, Placement(s.job.nodes, (rest,), exact=False)) if rest else None
            where = self.placer.place(s.job, s.app, floor)
            if undo is not None:
                undo()
            if where is not None and self._in_pool(s, where) and s.job.nodes[0] not in where.nodes:
                yield -s.gain(self.speeds.step(s.app, flat(where, self.view.cluster))) * len(s.gpus), s, where


def _may_have(one: RunsNow, other: RunsNow, view: Snapshot) -> bool:
    rows = [view.cluster.node_index[name] for name in other.job.nodes]
    return any(area.mask is None or bool(area.mask[rows].all()) for area in one.need.areas)


def as_waiting(job: Job) -> Job:
    """A running job as a placer looks at one: by what it asks for, not by where it is."""
    original = job.lease.original if job.lease else job.request
    return replace(job, request=original, required_nodes="", slots=())
