"""The cycle, as numbered prose. In: the port, the books, a policy. Out: a CycleReport, whose sentence is logged.

leader? -> one snapshot -> reconcile -> candidates -> plan -> guard -> intent -> apply -> observe -> outcome.
One job's failure is an outcome row, never an exception out of the cycle; a fault of ours is an end like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from pal_slurm.config import Config
from pal_slurm.daemon.books import Books
from pal_slurm.daemon.canary import outside
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.excluding import Excluding, given_back
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.leases.begins import lapsed, told
from pal_slurm.daemon.leases.keeping import LeaseRules, lease_again, renewals
from pal_slurm.daemon.leases.passing import Known
from pal_slurm.daemon.leases.qos import Preempting
from pal_slurm.daemon.moves.budget import sum_of
from pal_slurm.daemon.moves.movers import Movers
from pal_slurm.daemon.moves.proposing import proposals, told_of_movers
from pal_slurm.daemon.odd import planned
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.pace import ReadPace
from pal_slurm.daemon.past import Past, pins_of
from pal_slurm.daemon.pausing import paused
from pal_slurm.daemon.preempting import let_preempt, those_of
from pal_slurm.daemon.reasons import news
from pal_slurm.daemon.rivals import Rivals, watched
from pal_slurm.daemon.round import Round, Wish, let_go
from pal_slurm.daemon.seeing import as_precise_as, by_slurms_clock
from pal_slurm.daemon.starts import OF_RUNNING, Starts
from pal_slurm.daemon.stepping_back import SteppingBack, freed
from pal_slurm.daemon.undo import fences
from pal_slurm.daemon.writer import Writer
from pal_slurm.errors import NotLeader, PalError, SlurmUnavailable, StoreError, StoreGone
from pal_slurm.guard import Rules
from pal_slurm.learning.knowledge import keep_of
from pal_slurm.learning.patterns import Patterns
from pal_slurm.model import Action, Decision, EditKind, EditResult, JobRef, Outcome, Reason, Snapshot, over, until
from pal_slurm.policy import Circumstances, Composition, Plan, plan
from pal_slurm.slurm.port import Passes, Slurm

NOBODYS = 0  # fence: of no leadership
MOST_WAIT_S = 60.0
RENEWALS = 0.5  # the part of the write budget that keeping leases may take, ahead of time


@dataclass
class Cycle:
    slurm: Slurm
    books: Books
    composition: Composition
    config: Config
    rules: Rules
    pace: ReadPace
    movers: Movers
    leases: LeaseRules
    entries: Entries
    writer: Writer
    past: Past
    rivals: Rivals
    preempting: Preempting
    back: SteppingBack
    faults: Faults = field(default_factory=Faults)
    last_rpc_us: int | None = None
    owed: Round | None = None  # its undos, until they are written
    seen: Round | None = None  # the last one, as far as it came; None: it saw nothing

    def __post_init__(self) -> None:
        self.clock, self.leader = self.writer.clock, self.writer.leader

    def run(self) -> CycleReport:
        """One cycle; whatever goes wrong with Slurm, the store or the leadership is told in its sentence."""
        report, self.owed, self.seen = CycleReport(shadow=self.back.only_looks(self.config.actuator)), None, None
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
        if self.owed is not None and not report.edits:
            with self.faults.contained("undoing"), suppress(PalError):
                self.writer.write(self.owed.undos, self.owed)

    def _steps(self, report: CycleReport) -> None:
        # 1 leader?
        term = self.leader.hold()
        report.leader = True
        if denied := self.writer.rights.denied(self.clock.monotonic()):
            report.end, report.note = "denied", denied
            return
        # 2 one snapshot
        round = self._look(report, term.fence)
        # 3 reconcile what we did before
        self._reconcile(round)
        self._learn(round)
        if (pause := paused(self.config, self.books.switches)) is not None:
            report.end, report.note = "paused", f"paused: {pause.reason}"
            self._remember_paused(self.writer.write(freed(round), round), round)
            if not report.shadow:
                self.writer.lift(fences(round.snapshot), round)
            return
        if self.back.goes_on(round, self.writer, self.movers.going):
            return
        if report.end == "clock":
            self.writer.write(round.undos, round)
            return
        # 4 candidates, 5 plan
        self._move_on(round)
        passing = self._plan(round)
        if report.shadow:
            report.would.update(d.action for d in round.decisions if d.action is not Action.LEAVE)
            return
        if self.config.actuator == "exclude":
            self.writer.write([*round.undos, *round.exclusions], round)
            return
        # 6 guard, 7 intent, 8 apply, 9 observe, 10 outcome
        self._start(round)
        self._renew(round)
        self._lease_again(round)
        if not self.movers.going:  # who passes without a lease could take what one of these is about to
            report.passing = tuple(passing.lines(round.results, self.clock.now()))

    def _remember_paused(self, results: Sequence[EditResult], round: Round) -> None:
        """Whom a pause gave back to Slurm may be leased again after it."""
        waiting = {job.id: job for job in round.snapshot.pending}
        for result in results:
            if let_go(result) and (job := waiting.get(result.edit.job)) is not None:
                self.entries[job.key].paused = True

    def _move_on(self, round: Round) -> None:
        """Moves that were begun, and how much may be begun."""
        caps, week = self.slurm.capabilities(), self.movers.week(round)
        self.rules = replace(self.rules, moves=self.movers.rules(self.config, week, round.now, caps))
        self.movers.tend(round, self.rules, caps)
        round.report.moving, round.report.week = len(self.movers.in_hand()), sum_of(week)

    def _look(self, report: CycleReport, fence: int) -> Round:
        if self.last_rpc_us is None:  # what a snapshot costs is to be known from the first one on
            self.last_rpc_us = self.slurm.passes().rpc_time_us
        begun, snapshot = self.clock.monotonic(), self.slurm.snapshot()
        report.read_s = self.clock.monotonic() - begun
        passes = self._passes(report.read_s)
        snapshot = by_slurms_clock(snapshot, passes, self.clock.monotonic() - begun, report)
        snapshot = self.movers.lives.joined(as_precise_as(self.rules, snapshot), fence)
        self.entries.keep(snapshot)
        self.entries.restore(snapshot, self.books.ledger, self.leases)
        snapshot = self.books.gpu_limits.seen(snapshot, begun, parts=self.rules.parts)
        spared = self.preempting.names if self.config.lease.spare_preempting else ()
        snapshot = those_of(spared, told(snapshot, self.entries, self.books.ledger))
        report.pending = len(snapshot.pending)
        report.leased = sum(j.is_leased(snapshot.taken) for j in snapshot.pending)
        report.dropped_hints, report.unread = snapshot.dropped_hints, len(snapshot.unread) + len(snapshot.too_long)
        return Round(report, fence, begun, passes, snapshot)

    def _passes(self, wall_s: float) -> Passes:
        passes = self.slurm.passes()
        last, self.last_rpc_us = self.last_rpc_us, passes.rpc_time_us
        spent = None if last is None or passes.rpc_time_us < last else (passes.rpc_time_us - last) / 1e6
        self.pace.took(wall_s, spent, self.writer.took_s, self.clock.monotonic())
        self.writer.looked(apart_s=self.pace.gap_s(0.0))
        return passes

    def _reconcile(self, round: Round) -> None:
        seen, others = (round.snapshot, round.passes, self.rules, round.fence), self.movers.look()
        round.fates, round.lost = self.past.reconciled(*seen, others, frozenset(self.movers.going))
        round.report.expected = len(round.expected)
        if not round.report.shadow:
            round.undos = self.past.undos(round.fates, round.lost, round.snapshot, self.leases)
            if self.config.actuator != "exclude":
                round.undos += given_back(round, but=round.undos)
        round.report.undone = len(round.undos)
        self.owed = round

    def look_only(self) -> tuple[Round, Plan]:
        """A cycle as far as its plan, with nothing written anywhere: who does not lead asks what pald would do."""
        round = self._look(CycleReport(shadow=self.config.actuator == "shadow"), NOBODYS)
        moves, going = self.movers.look(), frozenset(self.movers.going)
        round.fates = self.past.judged(round.snapshot, round.passes, self.rules, NOBODYS, moves)
        round.lost = self.past.unwatched(round.fates, round.snapshot, self.rules, going)
        round.promised = self.movers.promised()
        if not round.report.shadow:
            round.undos = self.past.undos(round.fates, round.lost, round.snapshot, self.leases)
        self._know(round)
        self.books.observer.recall(round.snapshot, round.knowledge)
        _, made, _ = self._planned(round)
        if self.composition.entitlement is not None:  # what each is owed is found out beside the cycle
            self.books.entitling.beside.wait(MOST_WAIT_S)
            _, made, _ = self._planned(round)
        return round, made

    def _know(self, round: Round) -> None:
        """What is known by now."""
        books, found = self.books, round.snapshot
        knowledge = books.knowledge.read(found.cluster, found.taken)
        found = books.observer.held(Patterns(self.config.patterns).tagged(found, knowledge.apps.known), knowledge.pools)
        round.snapshot, round.knowledge = found, knowledge

    def _learn(self, round: Round) -> None:
        """What is known by now, and what is found out beside the cycle."""
        self._know(round)
        books, found, knowledge = self.books, round.snapshot, round.knowledge
        round.report.scores_known = knowledge.scores.share_known(found.cluster)
        with self.faults.contained("observing"):
            if gone := books.observer.vanished(found):
                with suppress(SlurmUnavailable):
                    found = replace(found, over=(*found.over, *over(self.slurm.records(gone))))
            books.observer.record_changes(found, knowledge, pins_of(round.fates))
        if round.report.end != "clock":  # what is old no clock of the two tells
            with self.faults.contained("learning"):
                books.learner.begin_when_due(self.config, found.cluster, found.taken)
            with self.faults.contained("forgetting"):
                books.forgetter.begin_when_due(found.taken, keep_of(self.config))
        self.seen = round  # with what is known of it: others may look

    def _planned(self, round: Round) -> tuple[Known, Plan, Snapshot]:
        """For those that are not undone just now, by all that is known of them; and what there is without promises."""
        movers = self.movers.in_hand()
        whole = self.past.met.kept(round.without(movers), round.fates, movers)
        round.view = view = self.movers.kept(whole)
        passing = Known(view, round.knowledge, self.composition, self.config, self.books.observer.run_times)
        ran_out = passing.worth_leasing(lapsed(view, self.entries, self.books.ledger))
        self.rivals.take_in(view, ran_out)
        known = Circumstances(
            released=round.expected, rivals=watched(self.rivals, view.cluster), lapsed=ran_out,
            outside=outside(view.pending, self.config), refused=self._starts.refused(view), shares=self.rules.parts,
            accounts=self.rules.accounts, run_times=self.books.observer.run_times,
            wide=self.books.observer.wide, due=self.books.due(self.composition, round, self.clock.monotonic()),
        )  # fmt: skip
        round.run_times = known.run_times
        memory = self.books.memory.of(round.fence, round.now)
        by = partial(plan, knowledge=round.knowledge, composition=self.composition, circumstances=known, memory=memory)
        return passing, planned(view, by, self.entries, self.faults), whole

    def _plan(self, round: Round) -> Known:
        """Decisions about those that are not undone just now."""
        passing, made, whole = self._planned(round)
        view = round.view
        self.books.memory.keep(made.memory, round.fence, round.now)
        round.report.untold = bool(self.books.entitling.untold)
        of_running = [d for d in made.decisions if d.action in OF_RUNNING] + self._proposals(round, made)
        waiting = let_preempt([d for d in made.decisions if d.action not in OF_RUNNING], view, self.rules)
        round.decisions = passing.ahead(waiting, self.entries.held_back(view.taken))
        if self.config.actuator == "exclude":
            round.exclusions = given_back(round, but=round.undos)  # if that fails: nobody would look after the lists
            with self.faults.contained("excluding"):
                Excluding(self.entries, self.config, self.books.observer.run_times).decide(round)
        with self.faults.contained("reasons"):
            self._tell(told_of_movers(round.decisions, round, whole, self.composition), round)
        of_running = self.past.may_move(of_running, round.snapshot, self.rules)
        seen = self.movers.for_movers(round)
        round.moves, refused = self._starts.of_running(of_running, seen)
        if round.moves and self.movers.bind(round):
            self.rules = self.movers.binding(self.rules)
            round.moves, refused = self._starts.of_running(of_running, seen)  # stricter: the same, and more
        if refused:
            self.books.ledger.refuse([row for row, _ in refused])
            for _, written in refused:
                written.remember()
        return passing

    def _proposals(self, round: Round, made: Plan) -> list[Decision]:
        """Moves that would pay; a fault of ours there costs nobody his place."""
        with self.faults.contained("moving"):
            round = self.movers.for_movers(round)
            if self.movers.proposes is not None:
                return self.movers.proposes(round)
            times = self.books.observer.run_times
            known = (self.composition, self.config, self.rules, self.movers.costs, times)
            return proposals(round, list(made.decisions), *known, made.kept)
        return []

    def _tell(self, decisions: Sequence[Decision], round: Round) -> None:
        told = list(news(decisions, round, self.entries, self.config.actuator, parts=self.rules.parts))
        self.books.decisions.record([why for why, _ in told])
        for _, written in told:
            written.remember()

    @property
    def _starts(self) -> Starts:
        return Starts(self.entries, self.rules, self._tell)

    def _start(self, round: Round) -> None:
        """Undos first; what could not be pinned goes plain at once."""
        wishes = [*round.undos, *self._starts.wishes(round)]
        results = self.writer.write(wishes, round)
        if round.report.end == "ok" and round.moves:
            self.movers.begin(round.moves, round)
            round.report.moving = len(self.movers.in_hand())
        if round.report.end == "ok" and (instead := self._starts.instead(results, wishes, round)):
            self.writer.write(instead, round)

    def _renew(self, round: Round) -> None:
        """Keep the leases of those that stay; the last to get what is left of the write budget.

        An odd job's lease runs out, whatever becomes of its start.
        """
        over = {(r.edit.job, r.edit.task) for r in round.results if r.edit.kind is not EditKind.UNPIN and let_go(r)}
        rank = {d.job: d.rank for d in reversed(round.decisions)}
        stay = [
            (rank.get(job.id, number), job)
            for number, job in enumerate(round.view.pending)
            if job.is_leased(round.now) and (job.id, None) not in over and not self.entries.odd(job)
        ]
        ends, submit = self.entries.lease_ends(job for _, job in stay), {job.id: job.submit for _, job in stay}
        rate = self.writer.keeps.rate + RENEWALS * self.writer.budget.rate
        due = renewals(stay, ends, self.leases, round.now, self._slack_s(), rate, self.writer.keepable(round))
        for result in self.writer.keep([Wish(e, submit[e.job]) for e in due], round):
            if result.outcome is Outcome.DONE and (end := until(result.edit)) is not None:
                self.entries[JobRef(result.edit.job, submit[result.edit.job])].lease_end = end

    def _slack_s(self) -> float:
        """A lease that ends sooner than this is due: else the next look, and what is written by it, may come too late.

        Not sooner: to renew is to ask, and the more is asked the further are looks apart."""
        interval_s = self.config.cycle.interval_s
        return max(float(self.leases.margin_s), 2 * self.pace.gap_s(interval_s) + interval_s)

    def _lease_again(self, round: Round) -> None:
        """Take up leases that ran out, with what nothing else needs of the budget.

        The last come first: a job that is leased can be overtaken by any behind it that is not."""
        if round.report.put_off:
            return
        jobs, rank = {job.id: job for job in round.view.pending}, {d.job: d.rank for d in round.decisions}
        due = [jobs[d.job] for d in reversed(round.decisions) if d.reason is Reason.LEASE_RAN_OUT]
        most = min(self.writer.budget.spare(self.clock.monotonic()), self.writer.in_time(round))
        edits = (lease_again(job, rank[job.id], self.leases, round.now, self._slack_s()) for job in due[:most])
        self.writer.write([Wish(edit, jobs[edit.job].submit) for edit in edits], round)
