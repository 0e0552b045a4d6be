"""The one planner. In: events, or a snapshot. Out: a Plan: who starts now and where, who waits and why.

pald makes one from the snapshot in each cycle; one that is fed by events for a whole day gives the same plans. Who
starts is told with `started`; where nobody else starts jobs, what a plan starts counts as started.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count

from pal_slurm.model import (
    App,
    Cluster,
    Job,
    JobRef,
    Knowledge,
    Placement,
    Reason,
    Reservation,
    Snapshot,
    flat,
    speeds_of,
)
from pal_slurm.policy.composition import Composition
from pal_slurm.policy.easy import limit
from pal_slurm.policy.ever import Ever
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.horizon import Horizon
from pal_slurm.policy.line import Group, InLine, Waiting
from pal_slurm.policy.memory import NO_MEMORY, Head, Memory
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.plan import NOTHING_SPECIAL, Circumstances, Plan
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import Offer, Progress
from pal_slurm.policy.turn import Turn, turn_of
from pal_slurm.policy.walk import Walk


class Planner:
    def __init__(
        self,
        composition: Composition,
        cluster: Cluster,
        knowledge: Knowledge,
        *,
        now: float = 0.0,
        reservations: tuple[Reservation, ...] = (),
        facts: Circumstances = NOTHING_SPECIAL,
        memory: Memory = NO_MEMORY,
    ) -> None:
        self.composition, self.cluster, self.knowledge = composition, cluster, knowledge
        self.now, self.reservations, self.facts, self.memory = now, reservations, facts, memory
        self.waiting: dict[int, Waiting] = {}
        self.groups: dict[tuple[Need, int], Group] = {}
        self.odd: dict[int, Waiting] = {}  # who is looked at one by one
        self.running: dict[int, tuple[Job, Placement]] = {}
        self.tasks: Counter[int] = Counter()  # running tasks by array
        self.declining: dict[JobRef, float] = dict(memory.declining)
        self.heads: Mapping[JobRef, Head] = memory.heads
        self.classes: Counter[str] = Counter()  # of those that wait
        self._next_turn = math.inf  # when one of those who wait may become another kind of customer
        self._planned_for = now
        self._restore: list[Callable[[], None]] = []
        self._apps: dict[int, App] = {}  # so that their ids stay their own
        self._numbers = count()
        self.once = False  # made for one plan: nothing need be put back
        self._floors()

    def _floors(self) -> None:
        """All that follows from cluster and knowledge."""
        self.speeds = speeds_of(self.cluster, self.knowledge.scores)
        self.floor = Floor(self.cluster, self.knowledge, now=self.now, reservations=self.reservations)
        self.horizon = Horizon(self.floor)
        self.ever = Ever(self.floor)
        self.ideal: Floor | None = None  # nothing is taken there, ever
        self.offered: dict[tuple[Need, int], tuple[Placement, Offer]] = {}  # last, by kind of job
        self._best: dict[tuple[Need, int], float] = {}  # by kind of job: its step time there

    # events

    def arrive(self, job: Job, app: App | None = None, progress: Progress | None = None) -> None:
        app = self.knowledge.apps.get(job.hint.app) if app is None else app
        place = InLine(self.composition.order.key(job, progress), limit(job), job)
        self._enter(place, app)
        if job.gpu_job:
            self.classes[app.cls] += 1

    def changed(self, job: Job, progress: Progress | None = None) -> None:
        """Its record is another one."""
        app = self.waiting[job.id].app
        self._gone(job.id)
        self.arrive(job, app, progress)

    def started(self, job: Job, placement: Placement, end: float) -> None:
        """It runs there; most often as we have planned it."""
        if job.id in self.waiting:
            self._gone(job.id)
        self.declining.pop(job.key, None)
        held = self.running.get(job.id)
        if held is None or held[1] != placement:
            if held is not None:
                self._give_back(job.id)
            self.floor.hold(job, placement)
            self._holds(job, placement, end)

    def ended(self, job: int) -> None:
        """It runs no longer, or waits no longer."""
        if job in self.waiting:
            self.declining.pop(self.waiting[job].place.job.key, None)
            self._gone(job)
        else:
            self._give_back(job)

    def learned(self, knowledge: Knowledge) -> None:
        """Other scores are known from now on."""
        self.knowledge = knowledge
        self.speeds = speeds_of(self.cluster, knowledge.scores)
        self.floor.learn(knowledge)
        self.ideal = None
        self.offered.clear()
        self._best.clear()
        for group in self.groups.values():
            group.ask_all()

    def act(self, now: float) -> Plan:
        """What to do now."""
        self.now = now
        if self.memory.begun is None:
            self.memory = replace(self.memory, begun=now)
        self._turn_over()
        self.floor.spare(frozenset(+self.classes))
        self._save()
        return Walk(self).run()

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        knowledge: Knowledge,
        composition: Composition,
        facts: Circumstances = NOTHING_SPECIAL,
        memory: Memory = NO_MEMORY,
    ) -> Planner:
        """All that a snapshot tells."""
        now, windows = snapshot.taken, snapshot.reservations
        made = cls(composition, snapshot.cluster, knowledge, now=now, reservations=windows, facts=facts, memory=memory)
        for job in snapshot.running:
            made._holds(job, Placement(job.nodes, job.gpus, False), math.inf if job.end is None else float(job.end))
        for job in snapshot.pending:
            made.arrive(job)
        return made

    # what a walk asks and does

    def best(self, need: Need, app: App) -> float:
        """Step time of a kind of job if everything were free: waiting brings nothing beyond that."""
        kind = (need, id(app))
        if kind not in self._best:
            self.ideal = self.ideal or self.floor.emptied()
            placer = self.composition.placement
            job = next((g.line[0].job for g in self.groups.values() if g.need is need), None)
            where = placer.place_kind(need, app, self.ideal) if isinstance(placer, Ranking) else None
            if where is None and job is not None:
                where = placer.place(job, app, self.ideal)
            self._best[kind] = math.inf if where is None else self.speeds.step(app, flat(where, self.cluster))
        return self._best[kind]

    def declines_since(self, job: Job) -> float | None:
        since = self.declining.get(job.key)
        return self.memory.declines_since(job) if since is None else since

    def starts(self, job: Job, placement: Placement) -> None:
        """Planned, and as good as done."""
        entry = self.waiting.pop(job.id)
        self._leave(entry)
        self.classes[entry.app.cls] -= 1
        self.running[job.id] = (job, placement)
        self.declining.pop(job.key, None)

    def remembered(self) -> Memory:
        """What the next plan must know, if it is made of a snapshot."""
        here = {entry.place.job.key for entry in self.waiting.values()}
        declining = {key: since for key, since in self.declining.items() if key in here}
        return Memory(self.memory.begun, declining, self.heads)

    def clear(self, job: Job, placement: Placement) -> None:
        """Nobody may have these GPUs in this plan."""
        self._restore.append(self.floor.clear(job, placement))

    def finish(self) -> None:
        """What was only counted as taken is so no longer."""
        self.horizon.forget()
        while self._restore:
            self._restore.pop()()

    # the state's own parts

    def _enter(self, place: InLine, app: App) -> None:
        job, facts = place.job, self.facts
        turn, reason = turn_of(job, self.now)
        if turn is Turn.PLACE and job.id in facts.outside:
            turn, reason = Turn.PLAIN, Reason.OUTSIDE_CANARY
        if turn is Turn.PLACE and job.id in facts.refused:
            turn, reason = Turn.PLAIN, Reason.REFUSED
        group = None
        if turn is Turn.PLACE and job.gpu_job:
            need = self.floor.needs.of(job)
            if need is None or not need.ways:
                turn, reason = Turn.PLAIN, Reason.CANT_PIN
            elif job.array_id is None and job.id not in facts.released:
                group = self.groups.get((need, id(app)))
                if group is None:
                    group = self.groups[need, id(app)] = Group(next(self._numbers), need, app, job.partitions)
                    self._apps[id(app)] = app
                group.add(place)
        entry = self.waiting[job.id] = Waiting(place, app, group, turn, reason)
        if group is None:
            self.odd[job.id] = entry
        for time in (job.eligible, job.lease.not_before if job.lease else None):
            if time is not None and self.now < time < self._next_turn:
                self._next_turn = time

    def _gone(self, job: int) -> None:
        entry = self.waiting.pop(job)
        if entry.place.job.gpu_job:
            self.classes[entry.app.cls] -= 1
        self._leave(entry)

    def _leave(self, entry: Waiting) -> None:
        group = entry.group
        if group is None:
            del self.odd[entry.place.job.id]
            return
        group.remove(entry.place.key)
        if not group.line:
            del self.groups[group.need, id(group.app)]

    def _holds(self, job: Job, placement: Placement, end: float) -> None:
        self.running[job.id] = (job, placement)
        self.horizon.occupy(job.id, job, placement, end)
        if job.array_id is not None:
            self.tasks[job.array_id] += 1

    def _give_back(self, job: int) -> None:
        ran, placement = self.running.pop(job)
        self.floor.give(ran, placement)
        self.horizon.leave(job, placement)
        if ran.array_id is not None:
            self.tasks[ran.array_id] -= 1

    def _turn_over(self) -> None:
        """What changes as time goes by: windows come nearer, leases end, begin times come."""
        nearer = bool(self.reservations) and self._planned_for != self.now
        if nearer:
            self._planned_for = self.now
            self.floor.ask_by(Needs(self.cluster, self.reservations, self.now))
            self.offered.clear()
            self._best.clear()
        if not nearer and self.now < self._next_turn:
            return
        self._next_turn = math.inf
        again = list(self.waiting.values())
        self.waiting, self.odd, self.groups = {}, {}, {}
        for entry in again:
            self._enter(entry.place, entry.app)

    def _save(self) -> None:
        """What a plan counts as taken only for itself is free again after it."""
        if self.facts.alone or self.once:
            return
        floor, back = self.floor.saved(), self.horizon.saved()

        def restore() -> None:
            floor()
            back()

        self._restore.append(restore)


def plan(
    snapshot: Snapshot,
    knowledge: Knowledge,
    composition: Composition,
    circumstances: Circumstances = NOTHING_SPECIAL,
    memory: Memory = NO_MEMORY,
) -> Plan:
    """As pald plans: from one look at the queue."""
    made = Planner.of(snapshot, knowledge, composition, circumstances, memory)
    made.once = True
    return made.act(snapshot.taken)
