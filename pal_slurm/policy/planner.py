"""The one planner. In: events, or a snapshot. Out: a Plan: who starts now and where, who waits and why.

pald makes one from the snapshot in each cycle; one that is fed by events for a whole day gives the same plans. Who
starts is told with `started`; where nobody else starts jobs, what a plan starts counts as started.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pal_slurm.model import (
    App,
    Cluster,
    Decision,
    Job,
    JobRef,
    Knowledge,
    Placement,
    Reservation,
    Snapshot,
    flat,
    speeds_of,
)
from pal_slurm.policy.composition import Composition
from pal_slurm.policy.easy import limit
from pal_slurm.policy.entitlement.debts import NO_DEBTS
from pal_slurm.policy.ever import Ever
from pal_slurm.policy.floor import Floor, still_there
from pal_slurm.policy.horizon import Horizon
from pal_slurm.policy.line import InLine
from pal_slurm.policy.memory import NO_MEMORY, Head, Memory
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.plan import NOTHING_KEPT, NOTHING_SPECIAL, Circumstances, KeptForWaiting, Plan
from pal_slurm.policy.pools.choice import PoolOption
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import Lessons, Offer, Progress, Promised, Studied
from pal_slurm.policy.waiters import Waiters
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
        self.composition, self.cluster, self.knowledge = facts.ordered(composition), cluster, knowledge
        self.now, self.reservations, self.facts, self.memory = now, reservations, facts, memory
        self.running: dict[int, tuple[Job, Placement]] = {}
        self.tasks: Counter[int] = Counter()  # running tasks by array
        self.declining: dict[JobRef, float] = dict(memory.declining)
        self.promised: dict[JobRef, Promised] = dict(memory.promised)
        self.studied = composition.patience if isinstance(composition.patience, Studied) else None
        learner = self.studied.name if self.studied is not None else ""
        self.lessons: Lessons = memory.lessons if memory.learner == learner else ()
        self._learner = learner
        self.heads: Mapping[JobRef, Head] = memory.heads
        self._still: tuple[Walk, Plan] | None = None  # the last plan, where it started nobody and nothing has ended
        self._planned_for = now
        self._restore: list[Callable[[], None]] = []
        self._last_kept: KeptForWaiting = NOTHING_KEPT  # by the last walk
        self.once = False  # made for one plan: nothing need be put back
        self.speeds = speeds_of(self.cluster, self.knowledge.scores)
        self.floor = Floor(self.cluster, self.knowledge, now=self.now, reservations=self.reservations)
        self.queue = Waiters(self.floor, facts)
        self.horizon = Horizon(self.floor)
        self.horizon.refresh = self._refresh_ends
        self._began: dict[int, tuple[int, float | None]] = {}  # by running job: since when, and until when if told
        self._taught = facts.run_times.taught
        self.ever = Ever(self.floor)
        self.ideal: Floor | None = None  # nothing is taken there, ever
        self.offered: dict[tuple[Need, int], tuple[Placement, Offer]] = {}  # last, by kind of job
        self._best: dict[tuple[Need, int], float] = {}  # by kind of job: its step time there
        self.pools = composition.pools.map(cluster)
        self.options: dict[tuple[Need, int], tuple[PoolOption, ...]] = {}  # the pools of each kind of job

    # events

    def arrive(self, job: Job, app: App | None = None, progress: Progress | None = None) -> None:
        app = self.knowledge.apps.get(job.hint.app, job.user) if app is None else app
        place = InLine(self.composition.order.key(job, progress), limit(job), job)
        self.queue.enter(place, app, self.now)

    def changed(self, job: Job, progress: Progress | None = None) -> None:
        """Its record is another one."""
        self._still = None
        self.arrive(job, self.queue.leave(job.id).app, progress)

    def started(self, job: Job, placement: Placement, end: float, soon: float | None = None) -> None:
        """It runs there; most often as we have planned it."""
        self._still = None
        if job.id in self.queue.waiting:
            self.queue.leave(job.id)
        self._forget(job)
        held = self.running.get(job.id)
        if held is None or held[1] != placement:
            if held is not None:
                self._give_back(job.id)
            self.floor.hold(job, placement)
            self._holds(job, placement, end, soon)

    def ended(self, job: int) -> None:
        """It runs no longer, or waits no longer."""
        self._still = None
        if job in self.queue.waiting:
            self._forget(self.queue.leave(job).place.job)
        else:
            self._give_back(job)

    def learned(self, knowledge: Knowledge) -> None:
        """Other scores are known from now on."""
        self._still = None
        self.knowledge = knowledge
        self.speeds = speeds_of(self.cluster, knowledge.scores)
        self.floor.learn(knowledge)
        self.ideal = None
        for kept in (self.offered, self._best, self.options):
            kept.clear()
        for group in self.queue.groups.values():
            group.ask_all()

    def act(self, now: float) -> Plan:
        """What to do now."""
        self.now = now
        if self.memory.begun is None:
            self.memory = replace(self.memory, begun=now)
        self._turn_over()
        if self.floor.spare(self.queue.classes(self.now)):
            self._still = None
        if self.facts.alone and not self.facts.shares and (still := self._nothing_new()) is not None:
            return still
        self._save()
        walk = Walk(self)
        made = walk.run()
        self._still = None if made.starts or walk.changes else (walk, made)
        self._last_kept = made.kept
        self.queue.newcomers.clear()
        return made

    def _nothing_new(self) -> Plan | None:
        """The plan where that costs no walk: nothing is free, or nobody but newcomers for whom there is no room."""
        if not self.floor.total():
            wake_at = min(
                (group.wake_at(self.now) for group in self.queue.groups.values() if group.refused), default=math.inf
            )
            return Plan((), (), wake_at, self._walked, self.remembered, self._last_kept)
        if self._still is None:
            return None
        walk, made = self._still
        if self.now >= made.wake_at or not walk.stands(self.now):
            return None
        if not all(map(walk.leaves_waiting, self.queue.newcomers)):
            return None
        self.queue.newcomers.clear()
        return Plan((), made.reserved, made.wake_at, self._walked, self.remembered, made.kept)

    def _walked(self) -> Iterator[Decision]:
        """Why all wait, where nobody starts."""
        return iter(Walk(self).run().decisions)

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
            where, end = Placement(job.nodes, job.holds, False), math.inf if job.end is None else float(job.end)
            made._holds(job, where, end)
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
            job = next((g.line[0].job for g in self.queue.groups.values() if g.need is need), None)
            where = Ranking().place_kind(need, app, self.ideal) if isinstance(placer, Ranking) else None
            if where is None and job is not None:
                where = placer.place(job, app, self.ideal)
            self._best[kind] = math.inf if where is None else self.speeds.step(app, flat(where, self.cluster))
        return self._best[kind]

    def declines_since(self, job: Job) -> float | None:
        since = self.declining.get(job.key)
        return self.memory.declines_since(job) if since is None else since

    def starts(self, job: Job, placement: Placement) -> None:
        """Planned, and as good as done."""
        self.queue.leave(job.id)
        self.running[job.id] = (job, placement)
        self._began[job.id] = (math.floor(self.now), None)
        self._forget(job)

    def _forget(self, job: Job) -> None:
        self.declining.pop(job.key, None)
        self.promised.pop(job.key, None)

    def remembered(self) -> Memory:
        """What the next plan must know, if it is made of a snapshot."""
        here = {entry.place.job.key for entry in self.queue.waiting.values()}
        declining = {key: since for key, since in self.declining.items() if key in here}
        promised = {key: promise for key, promise in self.promised.items() if key in here}
        debts = NO_DEBTS if self.facts.due is None else self.facts.due.debts
        return Memory(self.memory.begun, declining, self.heads, promised, self.lessons, self._learner, debts=debts)

    def clear(self, job: Job, placement: Placement) -> None:
        """Nobody may have these GPUs in this plan."""
        self._restore.append(self.floor.clear(job, placement))

    def finish(self) -> None:
        """What was only counted as taken is so no longer."""
        self.horizon.forget()
        while self._restore:
            self._restore.pop()()

    # the state's own parts

    def _holds(self, job: Job, placement: Placement, end: float, soon: float | None = None) -> None:
        self.running[job.id] = (job, placement)
        since = math.floor(self.now) if job.start is None or not job.nodes else job.start
        app = self.queue.left.get(job.id)
        self._began[job.id] = (since, soon)
        soon = self.soon(job, app, placement, since) if soon is None else soon
        self.horizon.occupy(job.id, job, placement, end, soon, since)
        if job.array_id is not None:
            self.tasks[job.array_id] += 1

    def soon(self, job: Job, app: App | None, placement: Placement, since: float) -> float | None:
        """When it will probably end there, if it runs since then; None: nobody knows, its limit tells."""
        app = self.knowledge.apps.get(job.hint.app, job.user) if app is None else app
        runs = self.facts.run_times.of(job, app.name)
        if not runs.known:
            return None
        width = self.cluster.width
        gpus = [row * width + slot for row, slots in still_there(placement, self.cluster) for slot in slots]
        if not gpus or len(gpus) != placement.n_gpus:
            return since + runs.seconds  # some of its GPUs are not told, or have left the configuration
        return since + runs.seconds * self.speeds.step(app, tuple(gpus)) / min(app.base.values(), default=1.0)

    def _refresh_ends(self) -> None:
        """Since those who run began, others have told how long such jobs run."""
        if self._taught == self.facts.run_times.taught:
            return
        self._taught = self.facts.run_times.taught
        for number, (job, placement) in self.running.items():
            since, told = self._began.get(number, (None, None))
            if since is None or told is not None or job.parts or placement.shard:
                continue
            soon = self.soon(job, self.queue.left.get(number), placement, since)
            if soon is not None:
                self.horizon.probably(placement, soon)

    def _give_back(self, job: int) -> None:
        self._began.pop(job, None)
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
            self.floor.ask_by(Needs(self.cluster, self.reservations, self.now, self.knowledge.pools))
            for kept in (self.offered, self._best, self.options):
                kept.clear()
        if self.queue.turn_over(self.now, anew=nearer):
            self._still = None

    def _save(self) -> None:
        """What a plan counts as taken only for itself is free again after it."""
        if self.facts.alone or self.once:
            return
        self._restore += [self.horizon.saved(), self.floor.saved()]


def plan(
    snapshot: Snapshot,
    knowledge: Knowledge,
    composition: Composition,
    circumstances: Circumstances = NOTHING_SPECIAL,
    memory: Memory = NO_MEMORY,
) -> Plan:
    """As pald plans: from one look at the queue."""
    if not snapshot.pending:
        snapshot = replace(snapshot, running=())  # nobody asks who holds what
    made = Planner.of(snapshot, knowledge, composition, circumstances, memory)
    made.once = True
    return made.act(snapshot.taken)
