"""Which planned starts are written. In: decisions, the guard, what came of pins. Out: wishes; jobs not to be pinned.

A pin that our own rewrite, the guard or slurmctld refuses would be refused in the next cycle too: the job goes plain in
the same cycle. One of which only a part stands, or which changed what the user asked for, is given back at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pal_slurm.daemon.edits import give_back, start
from pal_slurm.daemon.entries import Entries, ReasonTold
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.round import Round, Wish
from pal_slurm.guard import Cause, Refusal, Rules, check
from pal_slurm.model import (
    NOT_SENT,
    Action,
    Decision,
    EditResult,
    NotBegun,
    OperationKind,
    Outcome,
    Pin,
    Placement,
    Reason,
    Snapshot,
)
from pal_slurm.slurm.edits.insist import NOT_NOW

# The guard's own facts disagree with the plan's; what is merely taken or about to end is another matter in a moment.
DISAGREE = frozenset({
    Cause.HANDS_OFF, Cause.SHAPE, Cause.NO_SLOTS, Cause.UNEQUAL_SLOTS, Cause.NO_PLACEMENT, Cause.JOB_SHRINK,
    Cause.PARTITION, Cause.FEATURES, Cause.EXCLUDED,
})  # fmt: skip


SLACK_S = 2.0  # slurmctld's "now" is not ours
OF_RUNNING = {Action.MOVE: OperationKind.MOVE, Action.STOP: OperationKind.STOP}


@dataclass
class Starts:
    entries: Entries
    rules: Rules
    tell: Callable[[Sequence[Decision], Round], None]  # `palctl why`, of what was decided anew

    def wishes(self, round: Round) -> list[Wish]:
        """The starts that the guard lets pass, in order; a job that it will never let be pinned goes plain."""
        jobs, held_back = {job.id: job for job in round.view.pending}, self.entries.held_back(round.now)
        starts = (d for d in round.decisions if d.action in (Action.START, Action.PLAIN))
        wanted = [d for d in starts if jobs[d.job].key not in held_back]
        wishes, unfit = permitted(wanted, round.view, self.rules, round.coming, round.report)
        return wishes + self._plain(unfit, round)

    def instead(self, results: Sequence[EditResult], wishes: Sequence[Wish], round: Round) -> list[Wish]:
        """For pins that were refused, or came out otherwise than asked."""
        bad = list(failed(results, wishes))
        partial = {(d.job, d.task) for r, d in bad if r.outcome is Outcome.PARTIAL}
        plain = self._plain([d for _, d in bad], round, but=partial)
        return [*give_backs(bad, round.now), *plain]

    def refused(self, snapshot: Snapshot) -> frozenset[int]:
        """Jobs whose pin was refused; an array's tasks ask alike."""
        return frozenset(job.id for job in snapshot.pending if self.entries.of_array(job).refused)

    def of_running(
        self, decisions: Sequence[Decision], round: Round
    ) -> tuple[list[Decision], list[tuple[NotBegun, ReasonTold]]]:
        """Decisions about running jobs that the guard lets pass; and rows that say why of others, each told once: what
        is to be remembered when it is written stands beside it."""
        verdicts = check(decisions, round.view, self.rules, round.coming) if decisions else []
        refused = [verdict for verdict in verdicts if isinstance(verdict, Refusal)]
        passed = [verdict.decision for verdict in verdicts if not isinstance(verdict, Refusal)]
        return passed, list(self._not_begun(refused, round))

    def _not_begun(self, refused: Sequence[Refusal], round: Round) -> Iterator[tuple[NotBegun, ReasonTold]]:
        jobs = {job.id: job for job in round.view.running}
        for verdict in refused:
            decision = verdict.decision
            round.report.refusals[verdict.reason] += 1
            job, says = jobs.get(decision.job), (decision.action.value, verdict.reason.value)
            if job is not None and self.entries[job.key].told.get(decision.task) != says:
                kind = OF_RUNNING[decision.action]
                row = NotBegun(job.id, job.submit, kind, verdict.said, round.now, decision)
                yield row, ReasonTold(self.entries[job.key], decision.task, says)

    def _plain(
        self, decisions: Sequence[Decision], round: Round, but: Collection[tuple[int, int | None]] = ()
    ) -> list[Wish]:
        """Remember that these can't be pinned, and say so; `but` these are given back, and go plain later."""
        if not decisions:
            return []
        instead, bad = plain_instead(decisions), {decision.job for decision in decisions}
        for job in round.view.pending:
            if job.id in bad:
                self.entries.of_array(job).refused = True
        self.tell(instead, round)
        now = [d for d in instead if (d.job, d.task) not in but]
        return permitted(now, round.view, self.rules, {}, round.report)[0]


def permitted(
    wanted: Sequence[Decision],
    view: Snapshot,
    rules: Rules,
    released: Mapping[int, Placement],
    report: CycleReport,
) -> tuple[list[Wish], list[Decision]]:
    """The starts that the guard lets pass, in order; and the pins that it will never let pass."""
    jobs = {job.id: job for job in view.pending}
    wishes, unfit = [], []
    for decision, verdict in zip(wanted, check(wanted, view, rules, released), strict=True):
        if isinstance(verdict, Refusal):
            report.refusals[verdict.reason] += 1
            if verdict.reason in DISAGREE and decision.action is Action.START:
                unfit.append(decision)
            continue
        job = jobs[decision.job]
        end = None if job.eligible is None else job.eligible - rules.margin_s
        wishes.append(Wish(start(decision, job), job.submit, decision, by=end))
    return wishes, unfit


def failed(results: Sequence[EditResult], wishes: Sequence[Wish]) -> Iterator[tuple[EditResult, Decision]]:
    """Pins that were refused, or that did not come out as asked. Wishes that were put off have no result."""
    decided = {id(wish.edit): wish.decision for wish in wishes}
    for result in results:
        decision = decided.get(id(result.edit))
        if not isinstance(result.edit, Pin) or decision is None:
            continue
        final = result.outcome is Outcome.REFUSED and NOT_NOW not in result.said
        if result.outcome is Outcome.PARTIAL or (final and not result.said.startswith(NOT_SENT)):
            yield result, decision


def plain_instead(decisions: Iterable[Decision]) -> list[Decision]:
    return [
        replace(d, action=Action.PLAIN, reason=Reason.REFUSED, placement=None, step_time=d.slurm_step_time)
        for d in decisions
    ]


def give_backs(bad: Iterable[tuple[EditResult, Decision]], now: float) -> Iterator[Wish]:
    """The request as it was, to start when Slurm likes, for pins of which something else stands than was asked."""
    for result, decision in bad:
        job, pin = result.after, result.edit
        if result.outcome is Outcome.PARTIAL and job is not None and job.pending and isinstance(pin, Pin):
            if job.required_nodes and not (job.slots or job.asks_for(pin.nodes, ())):
                continue  # other nodes than ours: its user named them between the update and our second look
            if pin.seen is not None and job.eligible != pin.seen.eligible and (job.eligible or 0) > now + SLACK_S:
                continue  # so with a later begin time: reconcile gives its request back, and leaves it that
            yield Wish(give_back(job, None, pin), job.submit, decision)
