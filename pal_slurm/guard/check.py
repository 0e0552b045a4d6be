"""The proof itself. In: the starts of one batch, the snapshot they rest on, the site's rules. Out: a verdict for each.

Verdicts are given in order: what one permitted start takes is gone for the next. A refused one takes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from pal_slurm.guard.constraints import (
    check_excluded,
    check_features,
    check_partition,
    check_reservations,
    check_types,
    check_words,
)
from pal_slurm.guard.parts import check_part
from pal_slurm.guard.room import NodeRoom
from pal_slurm.guard.running import check_movable, ring_of
from pal_slurm.guard.verdict import Cause, No, Permit, Refusal, Rules, Verdict
from pal_slurm.model import Action, Cluster, Decision, Job, Placement, Request, Shape, Snapshot, Waits

OF_RUNNING = (Action.MOVE, Action.STOP)


def check(
    decisions: Sequence[Decision],
    snapshot: Snapshot,
    rules: Rules,
    released: Mapping[int, Placement] | None = None,
) -> list[Verdict]:
    """`released`: pins written earlier whose jobs have not started yet; what they name counts as taken."""
    batch = _Batch(snapshot, rules)
    for placement in (released or {}).values():
        batch.count_released(placement)
    batch.moves = {decision.job: decision for decision in decisions if decision.action in OF_RUNNING}
    verdicts = [batch.verdict(decision) for decision in decisions]
    lost: set[int] = set()
    while more := {v.decision.job for v in verdicts if isinstance(v, Refusal)} - lost:
        lost |= more
        verdicts = [_alone(verdict, lost) for verdict in verdicts]
    return verdicts


def _alone(verdict: Verdict, refused: Set[int]) -> Verdict:
    """Of those that exchange their GPUs all go, or none."""
    terms = verdict.decision.terms
    if isinstance(verdict, Refusal) or terms is None or refused.isdisjoint(terms.partners):
        return verdict
    first = next(other for other in terms.partners if other in refused)
    said = f"job {verdict.decision.job}: job {first}, whose GPUs it would take, must stay"
    return Refusal(verdict.decision, Cause.PARTNER, said)


@dataclass
class _Batch:
    snapshot: Snapshot
    rules: Rules
    gpus_taken: set[tuple[int, int]] = field(default_factory=set)  # (row, slot)
    room: NodeRoom = field(init=False)
    exact_on: set[int] = field(default_factory=set)  # rows that an exact pin is about to use
    loose_on: set[int] = field(default_factory=set)  # rows that a pin without slots is about to use
    started: set[tuple[int, int | None]] = field(default_factory=set)
    tasks: Counter[int] = field(default_factory=Counter)
    moves: dict[int, Decision] = field(default_factory=dict)  # of running jobs
    begun: list[Job] = field(default_factory=list)
    lent: frozenset[tuple[int, int]] = frozenset()  # GPUs that come free for the job that is looked at
    stay: set[int] = field(default_factory=set)  # running jobs whose move was refused

    def __post_init__(self) -> None:
        self.room = NodeRoom(self.snapshot.cluster)
        self.jobs = {job.id: job for job in self.snapshot.pending}
        self.running = {job.id: job for job in self.snapshot.running}
        self.tasks.update(job.array_id for job in self.snapshot.running if job.array_id is not None)
        for job in self.snapshot.pending:  # let go already, and about to start: Slurm's %N will count them
            if job.array_id is not None and job.task_let_go(self.snapshot.taken):
                self.tasks[job.array_id] += 1

    def count_released(self, placement: Placement) -> None:
        index = self.snapshot.cluster.node_index
        for node, slots in zip(placement.nodes, placement.gpus, strict=True):
            if node in index:
                self.gpus_taken.update((index[node], slot) for slot in slots)
                (self.exact_on if placement.exact else self.loose_on).add(index[node])

    def verdict(self, decision: Decision) -> Verdict:
        try:
            if decision.action in OF_RUNNING:
                self._check_move(decision)
                return Permit(decision)
            job = self._job(decision)
            self._check_ours(job)
            self._check_task(job, decision)
            if decision.action is Action.START:
                self._check_pin(job, decision.placement)
        except No as no:
            if decision.action in OF_RUNNING:
                self._must_stay(decision)
            return Refusal(decision, no.cause, f"job {decision.job}: {no.said}")
        self._count(job, decision)
        return Permit(decision)

    def _check_move(self, decision: Decision) -> None:
        job = self.running.get(decision.job)
        check_movable(job, decision, self.snapshot, self.rules, self.begun)
        assert job is not None
        if (job.id, None) in self.started:
            raise No(Cause.TWICE, "it was given a move already in this plan")
        if decision.action is Action.MOVE:
            self._check_target(job, decision)
        self.started.add((job.id, None))
        self.begun.append(job)

    def _check_target(self, job: Job, decision: Decision) -> None:
        ring = [self.running[other] for other in ring_of(decision, self.moves) if other in self.running]
        if not self.stay.isdisjoint(other.id for other in ring):
            raise No(Cause.PARTNER, "one of those that would exchange their GPUs with it must stay")
        partners = decision.terms.partners if decision.terms is not None else ()
        leave = [other for other in ring[1:] if other.id in partners]
        self.lent = frozenset(chain.from_iterable(map(self._gpus_of, (job, *leave))))
        if leave and decision.placement is not None and not self.lent.issuperset(self._gpus_of(decision.placement)):
            raise No(Cause.PARTNER, "it would take GPUs that none of those leaves who exchange theirs with it")
        self.room.lend(ring or [job])
        try:
            self._check_pin(replace(job, required_nodes="", slots=(), request=_asked(job)), decision.placement)
        finally:
            self.lent, self.room.lent = frozenset(), []
        assert decision.placement is not None and job.shape is not None
        cluster = self.snapshot.cluster
        if not all(cluster.awake[cluster.node_index[node]] for node in decision.placement.nodes):
            raise No(Cause.NODE_NOT_OK, "it would wait there until a node is powered up")
        self.count_released(decision.placement)
        self.room.move(job, job.shape, decision.placement, leaves=bool(ring))

    def _must_stay(self, decision: Decision) -> None:
        """Then nobody goes who would exchange with it."""
        self.stay.add(decision.job)
        for other in ring_of(decision, self.moves):
            self.room.stay(other)

    def _gpus_of(self, job: Job | Placement) -> Iterator[tuple[int, int]]:
        index = self.snapshot.cluster.node_index
        for node, slots in zip(job.nodes, job.gpus, strict=True):
            if node in index:
                yield from ((index[node], slot) for slot in slots)

    def _job(self, decision: Decision) -> Job:
        if decision.action not in (Action.START, Action.PLAIN):
            raise No(Cause.NOT_A_START, f"{decision.action} starts nothing")
        job = self.jobs.get(decision.job)
        if job is None:
            if decision.job in self.running:
                raise No(Cause.NOT_PENDING, "it runs already")
            raise No(Cause.GONE, "it is not in the queue any more")
        if not job.pending:
            raise No(Cause.NOT_PENDING, "it does not wait any more")
        tasks = (decision.task, None) if decision.task in job.array_tasks else (decision.task, *job.array_tasks)
        if any((job.id, task) in self.started for task in tasks):
            raise No(Cause.TWICE, "it was given a start already in this plan")
        return job

    def _check_ours(self, job: Job) -> None:
        """Our mark, a lease that lasts until our edit has arrived, and nothing else that holds the job back."""
        now, margin = self.snapshot.taken, self.rules.margin_s
        if job.lease is None:
            raise No(Cause.NO_LEASE, "it bears no mark of ours")
        if job.why is Waits.HELD:
            raise No(Cause.HELD, "somebody holds it")
        if job.dependency:
            raise No(Cause.NOT_ELIGIBLE, "it waits for other jobs")
        if job.lease.not_before is not None and job.lease.not_before > now:
            raise No(Cause.NOT_ELIGIBLE, "its user wants it to begin later")
        end = job.lease.end if job.eligible is None else job.eligible
        if end <= now:
            raise No(Cause.NO_LEASE, "its lease has run out; Slurm may be starting it")
        if end <= now + margin:
            raise No(Cause.LEASE_ENDING, f"its lease ends in {end - now:.0f} s; renew it first")

    def _check_task(self, job: Job, decision: Decision) -> None:
        if job.array_tasks:
            if decision.task is None and decision.action is Action.PLAIN:
                return  # all that wait at once: Slurm itself counts how many may run
            if decision.task not in job.array_tasks:
                raise No(Cause.NO_SUCH_TASK, f"task {decision.task} does not wait in this record")
        elif decision.task is not None and decision.task != job.array_task:
            raise No(Cause.NO_SUCH_TASK, f"task {decision.task} does not wait in this record")
        if job.array_limit is not None and job.array_id is not None and self.tasks[job.array_id] >= job.array_limit:
            raise No(Cause.ARRAY_LIMIT, f"{job.array_limit} of its tasks run already")

    def _check_pin(self, job: Job, placement: Placement | None) -> None:
        if not self.rules.disable_job_shrink:
            raise No(Cause.JOB_SHRINK, "add disable_job_shrink to SchedulerParameters in slurm.conf first")
        if job.hint.off:
            raise No(Cause.HANDS_OFF, "its user wrote pal:off")
        if job.required_nodes or job.lease is None or job.lease.own_nodes:
            raise No(Cause.HANDS_OFF, "it has a node list already")
        if job.het or job.exclusive or job.reservation or job.slurms or job.shape is None:
            raise No(Cause.HANDS_OFF, "it is heterogeneous, exclusive, in a reservation, or oddly shaped")
        if placement is None or not placement.nodes or len(placement.nodes) != len(placement.gpus):
            raise No(Cause.NO_PLACEMENT, "the pin does not say where")
        cluster = self.snapshot.cluster
        check_words(job, placement)
        rows = self._check_nodes(placement)
        self._check_shape(job.shape, placement)
        beside = check_part(job, placement, self.snapshot, self.rules, self.gpus_taken) if placement.shard else None
        if beside is None:
            self._check_gpus(rows, placement)
        self._check_slots(rows, placement)
        check_partition(job, placement, cluster)
        check_features(job, placement, cluster)
        check_types(job, placement, cluster)
        check_excluded(job, placement)
        check_reservations(job, placement, self.snapshot.reservations, self.snapshot.taken)
        self.room.check(job.shape, rows)

    def _check_nodes(self, placement: Placement) -> list[int]:
        cluster = self.snapshot.cluster
        if len(set(placement.nodes)) != len(placement.nodes):
            raise No(Cause.SHAPE, "a node is named twice")
        rows = []
        for node in placement.nodes:
            row = cluster.node_index.get(node)
            if row is None:
                raise No(Cause.NO_SUCH_NODE, f"there is no node {node}")
            if not cluster.node_ok[row]:
                raise No(Cause.NODE_NOT_OK, f"{node} can't start jobs now")
            rows.append(row)
        return rows

    def _check_shape(self, shape: Shape, placement: Placement) -> None:
        nodes, each = len(placement.nodes), len(placement.gpus[0])
        if not shape.min_nodes <= nodes <= shape.max_nodes:
            raise No(Cause.SHAPE, f"{nodes} nodes, and it asks for {shape.min_nodes} to {shape.max_nodes}")
        if any(len(slots) != each for slots in placement.gpus) or each == 0:
            raise No(Cause.SHAPE, "its nodes don't give equally many GPUs")
        if shape.gpus_per_node is not None and each != shape.gpus_per_node:
            raise No(Cause.SHAPE, f"{each} GPUs on each node, and it asks for {shape.gpus_per_node}")
        if shape.gpus is not None and each * nodes != shape.gpus:
            raise No(Cause.SHAPE, f"{each * nodes} GPUs, and it asks for {shape.gpus}")

    def _check_gpus(self, rows: list[int], placement: Placement) -> None:
        cluster = self.snapshot.cluster
        for row, node, slots in zip(rows, placement.nodes, placement.gpus, strict=True):
            if len(set(slots)) != len(slots):
                raise No(Cause.SHAPE, f"a GPU of {node} is named twice")
            for slot in slots:
                if not 0 <= slot < cluster.width or not cluster.gpu_exists[row, slot]:
                    raise No(Cause.NO_SUCH_GPU, f"{node} has no GPU {slot}")
                free = cluster.gpu_free[row, slot] or (row, slot) in self.lent
                if not free or (row, slot) in self.gpus_taken:
                    raise No(Cause.GPU_TAKEN, f"GPU {slot} of {node} is not free")

    def _check_slots(self, rows: list[int], placement: Placement) -> None:
        """What the pin asks for can be said to Slurm, and no other start can get in between."""
        cluster: Cluster = self.snapshot.cluster
        if placement.exact:
            if not (cluster.slots and self.rules.exact_slots):
                raise No(Cause.NO_SLOTS, "this cluster can't be asked for single devices")
            if any(slots != placement.gpus[0] for slots in placement.gpus):
                raise No(Cause.UNEQUAL_SLOTS, "Slurm can't be asked for different slots on different nodes")
        for row, node in zip(rows, placement.nodes, strict=True):
            if row in (self.loose_on if placement.exact else self.exact_on):
                # The pin without slots takes the lowest free devices: maybe those that the other one names.
                raise No(Cause.SLOT_RACE, f"on {node} a pin with and one without slots would race for the same GPU")

    def _count(self, job: Job, decision: Decision) -> None:
        self.started.add((job.id, decision.task))
        if job.array_id is not None:
            self.tasks[job.array_id] += 1
        if decision.action is not Action.START or decision.placement is None or job.shape is None:
            return
        self.count_released(decision.placement)
        self.room.start(job.shape, decision.placement)


def _asked(job: Job) -> Request:
    """As its user made it: a pin of ours stands in its request."""
    return job.lease.original if job.lease else job.request
