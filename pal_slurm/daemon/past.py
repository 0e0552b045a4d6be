"""What we did before, judged by what stands now. In: the ledger, one snapshot. Out: fates, undos, who has to wait.

reconcile.py judges one intent, and is pure; here the ledger is asked and told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pal_slurm.daemon.edits import address, give_back
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.daemon.limits_met import LimitsMet
from pal_slurm.daemon.observe import Pins
from pal_slurm.daemon.reconcile import (
    LASTING,
    OUTCOME_OF,
    Fate,
    Lost,
    Transition,
    View,
    arrays_of,
    find,
    has_room,
    judge,
    orphans,
)
from pal_slurm.daemon.round import Wish
from pal_slurm.guard import Rules
from pal_slurm.model import (
    NOT_SENT,
    SHARED_LIMITS,
    Decision,
    EditKind,
    Exclude,
    Include,
    Intent,
    Job,
    JobRef,
    Outcome,
    Pin,
    Snapshot,
    Unpin,
)
from pal_slurm.policy.turn import Turn, turn_of
from pal_slurm.slurm.port import Passes
from pal_slurm.store import Ledger

Written = Mapping[int, Sequence[Intent]]  # by job id, oldest first
ENDING_S = 60.0  # for so long a pin waits for jobs that are just ending on its nodes


@dataclass
class Past:
    ledger: Ledger
    entries: Entries
    met: LimitsMet = field(default_factory=LimitsMet)
    _room: dict[int, Passes] = field(default_factory=dict)  # by pin that waits: since when there is room for it

    def reconciled(
        self,
        snapshot: Snapshot,
        passes: Passes,
        rules: Rules,
        fence: int,
        moves: Collection[int] = (),
        movers: frozenset[int] = frozenset(),
    ) -> tuple[list[Transition], list[Lost]]:
        """Judge every watched intent, and write down what is over; pins of ours that nobody watches.

        Operations of `moves`, and what stands in `movers`, is looked after elsewhere.
        """
        fates = self.judged(snapshot, passes, rules, fence, moves)
        over = [t for t in fates if t.fate is not Fate.WAITING and not (t.fate is Fate.STANDS and _lasts(t))]
        stands = [t for t in fates if t.fate is Fate.STANDS and _lasts(t)]
        if over:
            self.ledger.outcome(_told(over), snapshot.taken, close=True)
        if stands:
            self.ledger.outcome(_told(stands), snapshot.taken)
        return fates, self.unwatched(fates, snapshot, rules, movers)

    def judged(
        self, snapshot: Snapshot, passes: Passes, rules: Rules, fence: int, moves: Collection[int]
    ) -> list[Transition]:
        """Every watched intent; nothing is written down."""
        jobs = {job.id: job for job in (*snapshot.pending, *snapshot.running)}
        split = (j for j in jobs.values() if j.array_id is not None and j.array_task is not None)
        tasks = {(j.array_id or 0, j.array_task or 0): j for j in split}
        cluster = snapshot.cluster
        ok = frozenset(name for name, good in zip(cluster.node_names, cluster.node_ok, strict=True) if good)
        arrays = arrays_of(snapshot.pending)
        view = View(jobs, tasks, ok, passes, snapshot.taken, {}, rules.parts, arrays=arrays)
        mine = (intent for intent in self.ledger.watched() if intent.operation not in moves)
        ending = snapshot.ending(ENDING_S)
        watched = [self.entries.counted(intent, passes, fence, ending) for intent in mine]
        found = (find(intent, view) for intent in watched)
        view = replace(view, undos=self.ledger.undos({job.key for job in found if job is not None}))
        pins = ((i, find(i, view)) for i in watched if isinstance(i.edit, Pin))
        open_ = ((i, job) for i, job in pins if ending.isdisjoint(i.edit.nodes if isinstance(i.edit, Pin) else ()))
        roomy = [i.id for i, job in open_ if job is not None and job.pending and has_room(i, job, cluster)]
        self._room = {number: self._room.get(number, passes) for number in roomy}
        view = replace(view, room=self._room)
        return [judge(intent, view) for intent in watched]

    def unwatched(
        self, fates: Iterable[Transition], snapshot: Snapshot, rules: Rules, movers: frozenset[int]
    ) -> list[Lost]:
        """Pins of ours that nobody watches."""
        seen = frozenset(t.job.id for t in fates if t.job is not None)
        elsewhere = seen | movers
        lost = list(orphans(snapshot.pending, elsewhere, snapshot.taken))
        waiting = (job for job in snapshot.pending if job.id not in elsewhere)
        unmarked = [job for job in waiting if job.lease is None and job.restarts and job.required_nodes]
        written = self._written([*lost, *unmarked])
        ours = ((job, self._was_ours(job, snapshot, written, rules.exact_slots)) for job in lost)
        bare = ((job, self._pin_of(job, written)) for job in unmarked)
        return [(job, pin) for job, pin in (*ours, *bare) if pin is not None]

    def may_move(self, decisions: Iterable[Decision], seen: Snapshot, rules: Rules) -> list[Decision]:
        """Without those of jobs that run on nodes of their user's choice, made after the submission (P2)."""
        wanted = list(decisions)
        named = {decision.job for decision in wanted}
        chosen = self._chosen((job for job in seen.running if job.id in named), seen, rules.exact_slots)
        return [decision for decision in wanted if decision.job not in chosen]

    def users_nodes(self, seen: Snapshot) -> frozenset[int]:
        """Jobs that wait on nodes of their user's choice, made after the submission. In doubt they are a pin of ours:
        one that came through torn names no slots, and would hold its job (P1)."""
        return self._chosen(seen.pending, seen, exact_slots=False)

    def _chosen(self, jobs: Iterable[Job], seen: Snapshot, exact_slots: bool) -> frozenset[int]:
        bare = [job for job in jobs if job.pin is not None and not job.slots]
        written = self._written(bare)
        return frozenset(job.id for job in bare if self._was_ours(job, seen, written, exact_slots) is None)

    def _written(self, jobs: Sequence[Job]) -> Written:
        """What was ever meant for these jobs and their arrays: asked at once."""
        return (
            self.ledger.of_jobs({n for job in jobs for n in (job.id, address(job, job.array_task)[0])}) if jobs else {}
        )

    def _was_ours(self, job: Job, snapshot: Snapshot, ledger: Written, exact_slots: bool) -> Pin | None:
        """The pin that stands in it, as far as we know it; None: what stands is no pin of ours.

        A node list on a leased job that nobody watches may be the user's own, written after the submission.
        """
        number, task = address(job, job.array_task)
        written = (*ledger[job.id], *(ledger[number] if number != job.id else ()))
        # Slurm gives a requeued job a new submit time.
        same = (i for i in written if i.submit == job.submit or (job.restarts and i.submit < job.submit))
        mine = [i for i in same if i.edit.task in (None, task)]
        back = [n for n, i in enumerate(mine, 1) if isinstance(i.edit, Unpin) and i.outcome is Outcome.DONE]
        sent = (i for i in mine[max(back, default=0) :] if not i.said.startswith(NOT_SENT))
        if pins := [(i.edit, i.outcome) for i in sent if isinstance(i.edit, Pin)][::-1]:
            # One that was refused may have come through late, but whole: with its nodes alone, its user chose alike.
            stands = (
                p for p, said in pins
                if job.asks_for(p.nodes, p.slots or () if said is Outcome.REFUSED else (), shard=p.shard)
            )  # fmt: skip
            # Somebody may have named other nodes since; parts of GPUs are no words of users.
            return next(stands, next((p for p, _ in pins if job.shard and p.slots == job.slots), None))
        unknown = Pin(job.id)
        if any(i.edit.kind in (EditKind.PIN, EditKind.PLAIN, EditKind.RENEW, EditKind.LEASE) for i in mine):
            return None  # we know it well, and never pinned it
        if job.slots:
            return unknown
        # Where pins name slots, one on a single node always does. The mark can't tell: only SlurmUser may write it.
        by_slot = exact_slots and snapshot.cluster.slots and job.shape is not None and job.shape.by_slot
        exact = by_slot and job.pin is not None and len(job.pin.nodes) == 1
        return unknown if not exact and job.submit < self.ledger.since(snapshot.taken) else None

    def _pin_of(self, job: Job, ledger: Written) -> Pin | None:
        """What was pinned stands still, by our own record: somebody wrote over the mark while the job ran."""
        number, task = address(job, job.array_task)
        written = reversed(ledger[number])
        pins = [i.edit for i in written if isinstance(i.edit, Pin) and i.edit.task == task and i.submit <= job.submit]
        stands = (pin for pin in pins if job.asks_for(pin.nodes, pin.slots or (), shard=pin.shard))
        return next(stands, None)

    def undos(
        self, fates: Collection[Transition], lost: Collection[Lost], seen: Snapshot, leases: LeaseRules
    ) -> list[Wish]:
        """Original requests to give back: pins that did not work out, and pins that nobody watches."""
        now = int(seen.taken)
        slurms = slurms_own(seen) if any(t.fate is Fate.UNDO for t in fates) else []
        wishes: dict[int, Wish] = {}
        again_and_again = [t.job.key for t in fates if t.fate is Fate.UNDO and t.job is not None]
        tries = self.ledger.undos([*again_and_again, *(job.key for job, _ in lost)])
        for t in fates:
            # An operation of several steps that is no move is not ours to go on with.
            if t.job is None or not t.job.pending or t.fate not in (Fate.UNDO, Fate.SURRENDER, Fate.GOES_ON):
                continue
            if isinstance(t.intent.edit, Exclude):
                self.entries[t.job.key].excluded_enough = True
                wishes[t.job.id] = Wish(Include(t.job.id), t.job.submit, t.intent.decision, cause=t.cause)
                continue
            own = t.job.own_begin(now)
            stays = own is not None or t.fate is not Fate.UNDO or would_be_passed(t.job, slurms)
            again = own if stays else self._later(t.job, now, leases, tries)
            ours = t.intent.edit
            edit = give_back(t.job, again, ours if isinstance(ours, Pin | Unpin) else None)
            wishes[t.job.id] = Wish(edit, t.job.submit, t.intent.decision, cause=t.cause)
        for job, pin in lost:
            again = job.own_begin(now) or self._later(job, now, leases, tries)
            wishes.setdefault(job.id, Wish(give_back(job, again, pin), job.submit, cause="a pin that nobody watches"))
        return list(wishes.values())

    def _later(self, job: Job, now: int, leases: LeaseRules, undone: Mapping[JobRef, int]) -> int:
        """The end of a new lease for a job whose pin is taken back: growing patience."""
        wait = min(leases.most_s // 2, 5 * 2 ** min(undone.get(job.key, 0), 20))
        if job.why in SHARED_LIMITS:
            wait = 0  # when it is tried again limits_met.py says
        self.entries[job.key].held_back = float(now + wait)
        return int(now + wait + leases.least_s)


def slurms_own(seen: Snapshot) -> list[Job]:
    """Who wants GPUs and waits in Slurm's own queue."""
    free = (j for j in seen.pending if j.gpu_job and not (j.pin or j.reservation))
    return [j for j in free if turn_of(j, seen.taken)[0] is Turn.THEIRS]


def would_be_passed(job: Job, waiting: Iterable[Job]) -> bool:
    """Whether Slurm could start somebody behind it while it is leased again: then it keeps its turn there (P5).

    Whom a limit of his own keeps waits for that, with a lease or without.
    """
    if job.why in SHARED_LIMITS:
        return False
    behind = (j for j in waiting if j.order > job.order)
    return any(not set(j.partitions).isdisjoint(job.partitions) for j in behind)


def pins_of(fates: Iterable[Transition]) -> Pins:
    return {
        t.job.key: t.intent.decision
        for t in fates
        if t.job is not None and t.intent.decision is not None and t.intent.decision.placement is not None
    }


def _lasts(t: Transition) -> bool:
    return t.intent.edit.kind in LASTING


def _told(fates: Iterable[Transition]) -> list[tuple[Intent, Outcome, str]]:
    return [(t.intent, OUTCOME_OF[t.fate], t.cause) for t in fates]
