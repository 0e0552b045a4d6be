"""The cycle, as numbered prose. In: the port, the books, a policy. Out: a CycleReport, whose sentence is logged.

leader? -> one snapshot -> reconcile -> candidates -> plan -> guard -> intent -> apply -> observe -> outcome.
One job's failure is an outcome row, never an exception out of the cycle; a fault of ours is an end like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pal_slurm.config import Config
from pal_slurm.daemon.alive import Alive
from pal_slurm.daemon.begins import Begins
from pal_slurm.daemon.canary import outside
from pal_slurm.daemon.clock import Clock
from pal_slurm.daemon.edits import let_go
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.forgetting import Forgetter
from pal_slurm.daemon.lapsed import Lapsed
from pal_slurm.daemon.leader import Leader
from pal_slurm.daemon.learning import Learner
from pal_slurm.daemon.leases import LeaseRules, lease_again, renewals
from pal_slurm.daemon.observe import Observer
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.pace import EDIT, PUT_OFF, START, ReadPace, StartBudget, WriteBudget, within
from pal_slurm.daemon.passing import Known
from pal_slurm.daemon.past import Past, pins_of
from pal_slurm.daemon.pausing import paused
from pal_slurm.daemon.reasons import Reasons
from pal_slurm.daemon.reconcile import expected
from pal_slurm.daemon.rights import Rights
from pal_slurm.daemon.rivals import Rivals, watched
from pal_slurm.daemon.starts import Refused, failed, give_backs, permitted, plain_instead
from pal_slurm.daemon.writer import Wish, Writer
from pal_slurm.errors import NotLeader, PalError, SlurmUnavailable, StoreError, StoreGone
from pal_slurm.guard import Rules
from pal_slurm.learning.knowledge import KnowledgeKeeper, keep_of
from pal_slurm.learning.patterns import Patterns
from pal_slurm.model import (
    Action,
    Decision,
    EditKind,
    EditResult,
    JobKey,
    Knowledge,
    Outcome,
    Placement,
    Reason,
    Snapshot,
    until,
)
from pal_slurm.policy import Composition
from pal_slurm.policy.memory import NO_MEMORY, Memory
from pal_slurm.policy.plan import Circumstances, plan
from pal_slurm.slurm.port import Passes, Slurm
from pal_slurm.store import DecisionRepo, Ledger, Switches

RENEWALS = 0.5  # the part of the write budget that keeping leases may take, ahead of time


@dataclass
class Books:
    """The repositories that a cycle reads and writes."""

    ledger: Ledger
    decisions: DecisionRepo
    switches: Switches
    observer: Observer
    forgetter: Forgetter
    knowledge: KnowledgeKeeper
    learner: Learner


@dataclass
class Cycle:
    slurm: Slurm
    books: Books
    composition: Composition
    config: Config
    clock: Clock
    leader: Leader
    rules: Rules
    pace: ReadPace
    budget: WriteBudget
    leases: LeaseRules
    alive: Alive
    starts: StartBudget = field(default_factory=StartBudget)
    memory: Memory = NO_MEMORY  # of the policy; losing it is neutral
    begins: Begins = field(default_factory=Begins)
    lapsed: Lapsed = field(init=False)
    past: Past = field(init=False)
    rivals: Rivals = field(default_factory=Rivals)
    reasons: Reasons = field(default_factory=Reasons)
    refused: Refused = field(default_factory=Refused)
    rights: Rights = field(default_factory=Rights)
    lease_ends: dict[JobKey, int] | None = None  # what we last wrote, for jobs whose record does not show it
    last_rpc_us: int | None = None
    faults: Faults = field(default_factory=Faults)
    owed: tuple[list[Wish], int, float, Passes] | None = None  # pins to take back, until they are written

    def __post_init__(self) -> None:
        self.lapsed = Lapsed(self.begins)
        self.past = Past(self.books.ledger)

    def run(self) -> CycleReport:
        """One cycle; whatever goes wrong with Slurm, the store or the leadership is told in its sentence."""
        report, self.owed = CycleReport(shadow=self.config.actuator == "shadow"), None
        begun = self.clock.monotonic()
        try:
            self._steps(report)
        except NotLeader as e:
            report.end, report.note = "standby", str(e)
        except SlurmUnavailable as e:
            self.pace.failed()
            report.end, report.note = "unavailable", str(e)
        except StoreGone as e:
            report.end, report.note = "gone", f"{e}; pald ends, to be started anew"
        except StoreError as e:
            report.end, report.note = "store", f"{e}; nothing is written to Slurm without a record"
        except MemoryError:
            raise
        except Exception as e:
            said = self.faults.happened("cycle", e)
            self._pay(report)
            report.end, report.note = "fault", said
        self.faults.cycle_ended(well=report.end != "fault")
        report.took_s = self.clock.monotonic() - begun
        report.ended = self.clock.now()
        return report

    def _pay(self, report: CycleReport) -> None:
        """After a fault: what is to be undone does not wait until our planner works again."""
        if self.owed and not report.edits:
            with self.faults.contained("undoing"), suppress(PalError):
                self._write(*self.owed, report)

    def _steps(self, report: CycleReport) -> None:
        # 1 leader?
        term = self.leader.hold(self.clock.now(), self.clock.monotonic())
        report.leader = True
        if denied := self.rights.denied(self.clock.monotonic()):
            report.end, report.note = "denied", denied
            return
        # 2 one snapshot
        begun = self.clock.monotonic()
        snapshot = self.begins.told(self._as_precise_as_allowed(self.slurm.snapshot()), self.books.ledger)
        report.read_s = self.clock.monotonic() - begun
        passes = self._passes(report.read_s)
        self._count(snapshot, report)
        # 3 reconcile what we did before
        fates, lost = self.past.reconciled(snapshot, passes, self.rules)
        report.expected = len(expected(fates))
        wishes = [] if report.shadow else self.past.undos(fates, lost, int(snapshot.taken), self.leases)
        report.undone = len(wishes)
        self.owed = (list(wishes), term.fence, begun, passes)
        knowledge = self.books.knowledge.read(snapshot.cluster, snapshot.taken)
        snapshot = Patterns(self.config.patterns).tagged(snapshot, knowledge.apps.known)
        report.scores_known = knowledge.scores.share_known(snapshot.cluster)
        with self.faults.contained("observing"):
            self.books.observer.look(snapshot.running, snapshot.cluster, knowledge, pins_of(fates), snapshot.taken)
        with self.faults.contained("learning"):
            self.books.learner.look(snapshot.cluster, snapshot.taken)
        with self.faults.contained("forgetting"):
            self.books.forgetter.look(snapshot.taken, keep_of(self.config))
        if (pause := paused(self.config, self.books.switches)) is not None:
            report.end, report.note = "paused", f"paused: {pause.reason}"
            wishes += [
                Wish(let_go(j, snapshot.taken), j.submit) for j in snapshot.pending if j.waits_for_us(snapshot.taken)
            ]
            self._write(wishes, term.fence, begun, passes, report)
            return
        # 4 candidates, 5 plan
        undone = {w.edit.job for w in wishes}
        view = replace(snapshot, pending=tuple(j for j in snapshot.pending if j.id not in undone))
        passing = Known(view, knowledge, self.composition, self.config)
        lapsed = passing.worth_leasing(self.lapsed.look(view, self.books.ledger))
        self.rivals.look(view, lapsed)
        known = Circumstances(
            released=expected(fates),
            rivals=watched(self.rivals, view.cluster),
            lapsed=lapsed,
            outside=outside(view.pending, self.config),
            refused=self.refused.ids(view),
        )
        made = plan(view, knowledge, self.composition, known, self.memory)
        self.memory = made.memory
        decisions = passing.ahead(made.decisions, self.past.patience(view.taken, self.leases))
        with self.faults.contained("reasons"):
            self.books.decisions.record(list(self.reasons.new(decisions, view, knowledge, self.config.actuator)))
        if report.shadow:
            report.would.update(d.action for d in decisions if d.action is not Action.LEAVE)
            return
        # 6 guard
        wishes += self._permitted(decisions, view, expected(fates), report, knowledge)
        # 7 intent, 8 apply, 9 observe, 10 outcome; what could not be pinned goes plain at once
        results = self._write(wishes, term.fence, begun, passes, report)
        instead = self._instead(results, wishes, view, report, knowledge) if report.end == "ok" else []
        results += self._write(instead, term.fence, begun, passes, report) if instead else []
        started = {(r.edit.job, r.edit.task) for r in results if r.edit.kind is not EditKind.UNPIN and _let_go(r)}
        self._renew(decisions, view, started, term.fence, begun, passes, report)
        results += self._lease_again(decisions, view, term.fence, begun, passes, report)
        report.passing = tuple(passing.lines(results, self.clock.now(), expected(fates)))

    def _as_precise_as_allowed(self, snapshot: Snapshot) -> Snapshot:
        """Where pins name nodes only, slots are none of the plan's business."""
        if self.rules.exact_slots or not snapshot.cluster.slots:
            return snapshot
        return replace(snapshot, cluster=replace(snapshot.cluster, slots=False))

    def _passes(self, wall_s: float) -> Passes:
        passes = self.slurm.passes()
        last, self.last_rpc_us = self.last_rpc_us, passes.rpc_time_us
        spent = None if last is None or passes.rpc_time_us < last else (passes.rpc_time_us - last) / 1e6
        self.pace.took(wall_s, spent)
        return passes

    def _count(self, snapshot: Snapshot, report: CycleReport) -> None:
        report.pending = len(snapshot.pending)
        report.leased = sum(job.is_leased(snapshot.taken) for job in snapshot.pending)
        report.dropped_hints = snapshot.dropped_hints
        report.unread = len(snapshot.unread)

    def _permitted(
        self,
        decisions: Iterable[Decision],
        view: Snapshot,
        released: Mapping[int, Placement],
        report: CycleReport,
        knowledge: Knowledge,
    ) -> list[Wish]:
        """The starts that the guard lets pass, in order; a job that it will never let be pinned goes plain."""
        jobs, held_back = {job.id: job for job in view.pending}, self.past.patience(view.taken, self.leases)
        starts = (d for d in decisions if d.action in (Action.PIN, Action.PLAIN))
        wanted = [d for d in starts if jobs[d.job].key not in held_back]
        wishes, unfit = permitted(wanted, view, self.rules, released, report)
        return wishes + (permitted(self._to_plain(unfit, view, knowledge), view, self.rules, {}, report)[0])

    def _instead(
        self, results: list[EditResult], wishes: list[Wish], view: Snapshot, report: CycleReport, knowledge: Knowledge
    ) -> list[Wish]:
        """For pins that were refused, or came out otherwise than asked."""
        bad = list(failed(results, wishes))
        partial = {(d.job, d.task) for r, d in bad if r.outcome is Outcome.PARTIAL}
        plain = [d for d in self._to_plain([d for _, d in bad], view, knowledge) if (d.job, d.task) not in partial]
        return [*give_backs(bad), *permitted(plain, view, self.rules, {}, report)[0]]

    def _to_plain(self, decisions: Sequence[Decision], view: Snapshot, knowledge: Knowledge) -> list[Decision]:
        """Remember that these can't be pinned, and say so."""
        if not decisions:
            return []
        instead = plain_instead(decisions)
        self.refused.note(instead, view)
        self.books.decisions.record(self.reasons.instead(instead, view, knowledge, self.config.actuator))
        return instead

    def _renew(
        self,
        decisions: Sequence[Decision],
        view: Snapshot,
        started: set[tuple[int, int | None]],
        fence: int,
        begun: float,
        passes: Passes,
        report: CycleReport,
    ) -> None:
        """Keep the leases of those that stay; the last to get what is left of the write budget."""
        rank = {d.job: d.rank for d in reversed(decisions)}
        stay = [
            (rank.get(job.id, number), job)
            for number, job in enumerate(view.pending)
            if job.is_leased(view.taken) and (job.id, None) not in started
        ]
        if self.lease_ends is None:
            self.lease_ends = self.books.ledger.lease_ends(job.key for _, job in stay)
        edits = renewals(stay, self.lease_ends, self.leases, view.taken, self._slack_s(), RENEWALS * self.budget.rate)
        submit = {job.id: job.submit for _, job in stay}
        waiting = {job.key for _, job in stay}
        self.lease_ends = {key: end for key, end in self.lease_ends.items() if key in waiting}
        for result in self._write([Wish(e, submit[e.job]) for e in edits], fence, begun, passes, report):
            if result.outcome is Outcome.DONE and (end := until(result.edit)) is not None:
                self.lease_ends[(result.edit.job, submit[result.edit.job])] = end

    def _slack_s(self) -> float:
        """A lease that ends sooner than this is due."""
        return max(float(self.leases.margin_s), 3 * self.pace.gap_s(self.config.cycle.interval_s))

    def _lease_again(
        self,
        decisions: Sequence[Decision],
        view: Snapshot,
        fence: int,
        begun: float,
        passes: Passes,
        report: CycleReport,
    ) -> list[EditResult]:
        """Take up leases that ran out, with what nothing else needs of the budget.

        The last in the order come first: a job that is leased can be overtaken by any behind it that is not.
        """
        if report.put_off:
            return []
        jobs = {job.id: job for job in view.pending}
        due = [jobs[d.job] for d in reversed(decisions) if d.reason is Reason.LEASE_RAN_OUT]
        rank = {d.job: d.rank for d in decisions}
        edits = (lease_again(job, rank[job.id], self.leases, view.taken, self._slack_s()) for job in due)
        wishes = [Wish(edit, jobs[edit.job].submit) for edit in edits]
        return self._write(wishes[: self.budget.spare(self.clock.monotonic())], fence, begun, passes, report)

    def _write(
        self, wishes: list[Wish], fence: int, begun: float, passes: Passes, report: CycleReport
    ) -> list[EditResult]:
        """As many as the budgets allow; the rest is due again in the next cycle."""
        now = self.clock.monotonic()
        starts = [w.edit.kind in (EditKind.PIN, EditKind.PLAIN) for w in wishes]
        chosen = within(starts, self.starts.allowance(now), self.budget.allowance(now))
        report.put_off += chosen.count(PUT_OFF)
        if any(until(w.edit) and w.edit.kind is not EditKind.RENEW for w in wishes):
            self.alive.shut()
        writer = Writer(self.slurm, self.books.ledger, self.leader, self.clock, self.config.cycle.max_age_s)
        sent = [w for w, c in zip(wishes, chosen, strict=True) if c]
        results = writer.write(sent, fence, begun, passes, report)
        self.budget.spend(chosen.count(EDIT))
        self.starts.spend(chosen.count(START), len(results), self.clock.monotonic() - now)
        pairs = zip(results, sent, strict=False)
        self.rivals.let_go(w.key for r, w in pairs if until(r.edit) is None and _let_go(r))
        self.rights.look(results, self.clock.monotonic())
        if denied := self.rights.denied(self.clock.monotonic()):
            report.end, report.note = "denied", denied
        return results


def _let_go(result: EditResult) -> bool:
    """Its lease is over, or may be: it is not for us to prolong."""
    return result.outcome not in (Outcome.REFUSED, Outcome.GONE)
