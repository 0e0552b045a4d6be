"""One cycle on its way. In: what it was begun with. Out: the same object, which each step reads and adds to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.reconcile import Lost, Transition, expected, given_up
from pal_slurm.daemon.seeing import as_if_ours
from pal_slurm.model import Decision, Edit, EditResult, JobRef, Knowledge, Move, Outcome, Placement, RunTimes, Snapshot
from pal_slurm.policy.entitlement.precedence import DueNow
from pal_slurm.slurm.port import Passes


@dataclass(frozen=True, slots=True)
class Wish:
    """An edit that the cycle wants, and what led to it."""

    edit: Edit
    submit: int
    decision: Decision | None = None
    by: float | None = None  # epoch: a start is not sent later, its lease is about to end
    operation: int = 0  # that it goes on with; 0: it begins one
    step: int = 0
    move: Move | None = None
    cause: str = ""  # of what it begins, where no decision tells

    @property
    def key(self) -> JobRef:
        return JobRef(self.edit.job, self.submit)


@dataclass
class Round:
    report: CycleReport
    fence: int  # of our leadership
    begun: float  # when the snapshot was, on the monotonic clock: whatever is written rests on it
    passes: Passes
    snapshot: Snapshot
    fates: list[Transition] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    undos: list[Wish] = field(default_factory=list)
    view: Snapshot = field(init=False)  # without the jobs that are undone
    knowledge: Knowledge = field(init=False)
    run_times: RunTimes = field(default_factory=RunTimes)  # how long jobs run
    due: DueNow | None = None  # what each job is owed, where an entitlement says so
    decisions: tuple[Decision, ...] = ()
    promised: dict[int, Placement] = field(default_factory=dict)  # by mover on its way: where it is to go
    moves: list[Decision] = field(default_factory=list)  # of running jobs, as far as the guard lets them pass
    exclusions: list[Wish] = field(default_factory=list)  # of the actuator `exclude`
    results: list[EditResult] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.snapshot.taken

    def time(self, monotonic: float) -> float:
        """By the clock that the snapshot was reckoned by, whatever becomes of our host's meanwhile."""
        return self.now + monotonic - self.begun

    @property
    def expected(self) -> dict[int, Placement]:
        return expected(self.fates)

    def without(self, movers: Collection[int]) -> Snapshot:
        """Those that are undone just now are not decided about; what they give up stays theirs until they are."""
        away = {wish.edit.job for wish in self.undos}.union(movers)
        pending = tuple(job for job in self.snapshot.pending if job.id not in away)
        seen = replace(self.snapshot, pending=pending).keeping(given_up(self.fates, self.lost))
        return as_if_ours(seen) if self.report.shadow else seen

    @property
    def coming(self) -> dict[int, Placement]:
        """What is about to be used, and how: by slots or by nodes, which don't go together on one node."""
        return self.promised | self.expected


def let_go(result: EditResult) -> bool:
    """Its lease is over, or may be: it is not for us to prolong."""
    return result.outcome not in (Outcome.REFUSED, Outcome.GONE)
