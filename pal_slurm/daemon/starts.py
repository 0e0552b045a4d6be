"""Which planned starts are written. In: decisions, the guard, what came of pins. Out: wishes; jobs not to be pinned.

A pin that our own rewrite, the guard or slurmctld refuses would be refused in the next cycle too: the job goes plain in
the same cycle. One of which only a part stands, or which changed what the user asked for, is given back at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pal_slurm.daemon.edits import give_back, start
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.writer import Wish
from pal_slurm.guard import Cause, Refusal, Rules, check
from pal_slurm.model import NOT_SENT, Action, Decision, EditResult, Job, Outcome, Pin, Placement, Reason, Snapshot
from pal_slurm.slurm.edits.insist import NOT_NOW

# The guard's own facts disagree with the plan's; what is merely taken or about to end is another matter in a moment.
DISAGREE = frozenset({
    Cause.HANDS_OFF, Cause.SHAPE, Cause.NO_SLOTS, Cause.UNEQUAL_SLOTS, Cause.NO_PLACEMENT, Cause.JOB_SHRINK,
    Cause.PARTITION, Cause.FEATURES, Cause.EXCLUDED,
})  # fmt: skip


@dataclass
class Refused:
    """Jobs whose pin was refused. Kept in memory only: a pald that starts anew learns it by one more refusal."""

    _jobs: set[tuple[int, int]] = field(default_factory=set)

    def note(self, decisions: Iterable[Decision], snapshot: Snapshot) -> None:
        bad = {decision.job for decision in decisions}
        self._jobs.update(_key(job) for job in snapshot.pending if job.id in bad)

    def ids(self, snapshot: Snapshot) -> frozenset[int]:
        """Those that still wait; the others are forgotten."""
        if not self._jobs:
            return frozenset()
        found = [job for job in snapshot.pending if _key(job) in self._jobs]
        self._jobs = set(map(_key, found))
        return frozenset(job.id for job in found)


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
            if verdict.reason in DISAGREE and decision.action is Action.PIN:
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


def give_backs(bad: Iterable[tuple[EditResult, Decision]]) -> Iterator[Wish]:
    """The request as it was, to start when Slurm likes, for pins of which something else stands than was asked."""
    for result, decision in bad:
        job, pin = result.after, result.edit
        if result.outcome is Outcome.PARTIAL and job is not None and job.pending and isinstance(pin, Pin):
            yield Wish(give_back(job, None, pin.original), job.submit, decision)


def _key(job: Job) -> tuple[int, int]:
    """An array's tasks ask alike."""
    return (job.id if job.array_id is None else job.array_id, job.submit)
