"""One plan: who starts now, and where. In: Snapshot, Knowledge, Composition. Out: Plan, a Decision per waiting GPU job.

1. What pinned jobs are about to take counts as taken.
2. The waiting jobs are walked in the composition's order.
3. A job that fits is placed and takes its GPUs, unless patience bids it wait for a better span.
4. One that can't be pinned goes plain when enough is free; what Slurm will probably take counts as taken.
5. One that does not fit waits; the first such gets a reservation, and later jobs start only where that delays nobody.
6. Jobs that are not ours take their turn too: they hold what Slurm planned for them, or would take now.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pal_slurm.model import (
    Action,
    App,
    Decision,
    Job,
    JobRef,
    Knowledge,
    Placement,
    Reason,
    Snapshot,
    Tier,
    comm_of,
    factors,
    predict,
)
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.policy.backfill import Backfill, Reserved
from pal_slurm.policy.composition import Composition
from pal_slurm.policy.ever import Ever
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.memory import NO_MEMORY, Head, Memory
from pal_slurm.policy.seams import Offer, Progress
from pal_slurm.policy.turn import Turn, turn_of

SOON_S = 120.0  # a start that Slurm's backfill plans within this time is left to it


@dataclass(frozen=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...]  # in the order in which the jobs were considered
    reserved: tuple[Reserved, ...] = ()  # what is kept for jobs that wait, the head of the queue first
    memory: Memory = NO_MEMORY  # what the next plan is to be given


def nobody(job: Job, since: float) -> bool:
    """No job starts without our leave."""
    return False


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a plan must know beside the snapshot; the daemon fills it from its ledger."""

    released: Mapping[int, Placement] = field(default_factory=dict)  # job id -> pinned, not started yet
    rivals: Callable[[Job, float], bool] = nobody  # whether jobs that aren't leased have been about since then
    lapsed: frozenset[int] = frozenset()  # whose lease ran out: leased again where Slurm can't start them
    outside: frozenset[int] = frozenset()  # rollout: ours, but not yet to be placed
    refused: frozenset[int] = frozenset()  # whose pin was refused: Slurm's, in their turn
    progress: Mapping[int, Progress] = field(default_factory=dict)


NOTHING_SPECIAL = Circumstances()


def plan(
    snapshot: Snapshot,
    knowledge: Knowledge,
    composition: Composition,
    circumstances: Circumstances = NOTHING_SPECIAL,
    memory: Memory = NO_MEMORY,
) -> Plan:
    return _Planner(snapshot, knowledge, composition, circumstances, memory).run()


class _Planner:
    def __init__(
        self, snapshot: Snapshot, knowledge: Knowledge, composition: Composition, c: Circumstances, memory: Memory
    ) -> None:
        self.snapshot, self.knowledge, self.composition, self.circumstances = snapshot, knowledge, composition, c
        self.memory = memory
        self.declining: dict[JobRef, float] = {}
        self.now, self.scores = snapshot.taken, knowledge.scores
        waiting = frozenset(self.app(job).cls for job in snapshot.pending if job.gpu_job)
        self.floor = Floor(
            snapshot.cluster, knowledge, now=self.now, reservations=snapshot.reservations, waiting=waiting
        )
        self.ever = Ever(self.floor)
        self.backfill = Backfill(self.floor, self.now, snapshot.running, composition.reserve)
        self.tasks_out = tasks_out(snapshot)
        self.limits = {job.array_id: job.array_limit for job in snapshot.pending if job.array_limit is not None}
        self.ideal: Floor | None = None  # all that can be used at all is free
        self.closed = False  # no backfill: behind the first job that waits, nobody starts

    def app(self, job: Job) -> App:
        return self.knowledge.apps.get(job.hint.app)

    def run(self) -> Plan:
        released = self.circumstances.released
        for job in self.snapshot.pending:
            if job.id in released:
                self.backfill.expect(job, released[job.id])
        waiting = [job for job in self.snapshot.pending if job.id not in released]
        decisions: list[Decision] = []
        for rank, job in enumerate(self.composition.order.sort(waiting, self.circumstances.progress)):
            decisions += self.decide(job, rank)
        return Plan(tuple(decisions), tuple(self.backfill.reserved), self.remembered())

    def remembered(self) -> Memory:
        waiting = self.snapshot.pending
        kept = {job.key: since for job in waiting if (since := self.memory.declining.get(job.key)) is not None}
        jobs, now = {job.id: job for job in waiting}, self.now
        heads: dict[JobRef, Head] = {}
        for reserved in self.backfill.reserved:
            job = jobs[reserved.job]
            if job.lease is not None and (job.eligible is None or job.eligible > now):
                heads[job.key] = self.memory.head(job, reserved.start, now)
        begun = now if self.memory.begun is None else self.memory.begun
        return Memory(begun, {**self.declining, **kept}, heads)

    def overdue(self, job: Job) -> Reason | None:
        """Why it is not to wait for us any longer: Slurm's own queue and backfill shall reserve for it."""
        head = self.memory.heads.get(job.key)
        if head is None:
            return None
        if self.now > head.until:
            return Reason.PAST_PLANNED_START
        return Reason.OVERTAKEN if self.circumstances.rivals(job, head.since) else None

    def decide(self, job: Job, rank: int) -> Iterator[Decision]:
        turn, reason = turn_of(job, self.now)
        if turn is Turn.PLACE and job.id in self.circumstances.outside:
            turn, reason = Turn.PLAIN, Reason.OUTSIDE_CANARY
        if turn is Turn.PLACE and job.id in self.circumstances.refused:
            turn, reason = Turn.PLAIN, Reason.REFUSED
        if turn is Turn.THEIRS:
            if job.id in self.circumstances.lapsed and not self.starts_soon(job):
                reason = Reason.LEASE_RAN_OUT
            self.make_room(job)
        if not job.gpu_job:
            return
        if reason is Reason.LEASE_RAN_OUT:
            yield Decision(job.id, None, Action.WAIT, reason, rank=rank)
        elif turn in (Turn.THEIRS, Turn.ASIDE):
            yield Decision(job.id, None, Action.LEAVE, reason, rank=rank)
        elif turn is Turn.LATER:
            yield Decision(job.id, None, Action.WAIT, reason, rank=rank)
        elif (overdue := self.overdue(job)) is not None:
            self.make_room(job)  # what is kept for it stays so until Slurm keeps it
            first = job.array_tasks[0] if job.array_tasks else job.array_task
            yield Decision(job.id, first, Action.PLAIN, overdue, rank=rank)
        else:
            yield from self.start(job, rank, turn, reason)

    def start(self, job: Job, rank: int, turn: Turn, reason: Reason) -> Iterator[Decision]:
        """One decision, or one per array task that starts and one for those that wait."""
        if turn is Turn.PLACE:
            need = self.floor.needs.of(job)
            if need is None or not need.ways:
                turn, reason = Turn.PLAIN, Reason.CANT_PIN
        tasks: tuple[int | None, ...] = job.array_tasks or (job.array_task,)
        room = len(tasks)
        if job.array_id is not None and (limit := self.limits.get(job.array_id)) is not None:
            room = max(0, limit - self.tasks_out[job.array_id])
        for task in tasks[:room]:
            found = self.now_or_wait(job, task, rank, turn, reason)
            yield found
            if found.action is Action.WAIT:
                return
            self.tasks_out[job.array_id] += 1
        if room < len(tasks):
            waiting = None if job.array_tasks else job.array_task
            yield Decision(job.id, waiting, Action.WAIT, Reason.NOT_ELIGIBLE, rank=rank)

    def now_or_wait(self, job: Job, task: int | None, rank: int, turn: Turn, reason: Reason) -> Decision:
        app, floor = self.app(job), self.backfill.floor_for(job)
        waiting = None if job.array_tasks else task
        if self.closed:
            return Decision(job.id, waiting, Action.WAIT, Reason.BEHIND_HEAD, rank=rank)
        placer = self.composition.placement
        where = placer.place(job, app, floor) if turn is Turn.PLACE else None
        if where is None:
            where = first_fit(job, floor)
            if where is not None and turn is Turn.PLACE:
                # It fits only unevenly over its nodes, which Slurm gives but can't be asked for.
                turn, reason = Turn.PLAIN, Reason.CANT_PIN
        if where is None and self.backfill.wants_reservation(job) and not self.ever.fits(job):
            return Decision(job.id, task, Action.PLAIN, Reason.CANT_PIN, rank=rank)
        if where is None:
            return Decision(job.id, waiting, Action.WAIT, self.wait(job, app, floor, turn), rank=rank)
        cluster, scores = self.snapshot.cluster, self.knowledge.scores
        tier = cluster.tier_of(tuple(cluster.node_index[n] for n in where.nodes), where.n_gpus)
        if turn is Turn.PLACE and (why := self.declines(job, app, where, tier)) is not None:
            return Decision(
                job.id, waiting, Action.WAIT, why, step_time=predict(app, where, cluster, scores), rank=rank
            )
        slurms = first_fit(job, floor)
        slurm_step = None if slurms is None else predict(app, slurms, cluster, scores)
        self.backfill.start(job, where)
        if turn is Turn.PLAIN:
            return Decision(job.id, task, Action.PLAIN, reason, None, slurm_step, slurm_step, rank, slurms)
        if not floor.merit(app.cls).informed:
            reason = Reason.NEUTRAL
        step = predict(app, where, cluster, scores)
        return Decision(job.id, task, Action.PIN, reason, where, step, slurm_step, rank, slurms)

    def declines(self, job: Job, app: App, where: Placement, tier: Tier) -> Reason | None:
        """Why it should rather wait than start there; not where nobody could use meanwhile what it leaves."""
        if not self.composition.backfill:
            return None
        f = factors(app, where, self.snapshot.cluster, self.knowledge.scores)
        need = self.floor.needs.of(job)
        span_cost = 1.0 if need is None else f.comm / float(comm_of(app, need.narrowest))
        known = self.memory.declines_since(job)
        since = self.now if known is None else known
        faster = self.floor.faster(app.cls, f.worst_score)
        slowdown = f.worst_score * span_cost
        offer = Offer(tier, slowdown, self.now - job.submit, self.now - since, faster, span_cost)
        wait = self.composition.patience.waits(job, offer)
        if wait is None or self.circumstances.rivals(job, since):
            return None  # what it declines would be a gift to those that take their turn from nobody
        best = self.best_there_is(job, app)
        offer = offer._replace(slowdown=min(slowdown, predict(app, where, self.snapshot.cluster, self.scores) / best))
        wait = self.composition.patience.waits(job, offer)
        if wait is None:
            return None
        self.declining[job.key] = since
        return wait.reason

    def best_there_is(self, job: Job, app: App) -> float:
        """Its step time if everything were free: waiting brings nothing beyond that."""
        if self.ideal is None:
            self.ideal = self.backfill.emptied()
        where = self.composition.placement.place(job, app, self.ideal)
        return math.inf if where is None else predict(app, where, self.snapshot.cluster, self.scores)

    def wait(self, job: Job, app: App, floor: Floor, turn: Turn) -> Reason:
        """It does not fit where it may start. Reserve for it, if it is its turn; say why."""
        fits = None if floor is self.floor else first_fit(job, self.floor)
        if self.backfill.wants_reservation(job):
            kept = self.backfill.reserve(job, app, self.composition.placement, turn is Turn.PLAIN)
            self.closed = not self.composition.backfill and kept is not None
        return Reason.NO_ROOM if fits is None else Reason.BEHIND_HEAD

    def starts_soon(self, job: Job) -> bool:
        """Whether Slurm could start it now without delaying a job ahead, or plans to within `SOON_S`."""
        if job.planned_nodes and job.start is not None and job.start <= self.now + SOON_S:
            return True
        return not self.closed and first_fit(job, self.backfill.floor_for(job)) is not None

    def make_room(self, job: Job) -> None:
        """A job that is not ours: hold what Slurm planned for it, or what it would take now."""
        planned = expand_hosts(job.planned_nodes) or frozenset()
        if not job.gpu_job:
            if planned and job.start is not None:
                # How many CPUs it asks for is not in the record: its nodes are kept whole from then on.
                self.backfill.respect(replace(job, exclusive=True), planned, 0, job.start)
            return
        need = self.floor.needs.guess(job)
        if planned and job.start is not None:
            most = need.ways[0][1] if need.ways else -(-need.shape.least_gpus // len(planned))
            self.backfill.respect(job, planned, most, job.start)
            return
        floor = self.backfill.floor_for(job)
        where = first_fit(job, floor)
        if where is not None:
            self.backfill.start(job, where)
        elif self.backfill.wants_reservation(job):
            self.backfill.reserve(job, self.app(job), self.composition.placement, plain=True)


def tasks_out(snapshot: Snapshot) -> Counter[int | None]:
    """Per array, the tasks that run or were let go already: what its %N counts."""
    now = snapshot.taken
    let_go = (j for j in snapshot.pending if not j.array_tasks and j.eligible is not None and j.eligible <= now)
    return Counter(job.array_id for job in (*snapshot.running, *let_go) if job.array_id is not None)
