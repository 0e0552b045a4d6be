"""The `Slurm` protocol that every backend implements. In: edits. Out: snapshots, pulses, edit results.

Any method may raise SlurmUnavailable (no trustworthy answer within its deadline); nothing else leaves a backend.
`apply` never raises for one job's sake: each edit has its result, judged by re-reading that job and comparing.
Who writes says for how long he may: that is asked right before each write, and no command that writes lives longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pal_slurm.model import Edit, EditResult, Job, Snapshot


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this release can do; the table is in capabilities.py, shown by `palctl status`."""

    release: str  # "22.05.8"
    repin: bool  # a pin can be moved to other slots before the start
    restore_untyped: bool  # a typed request can be turned back to the untyped original (23.02.6 on)
    exact_slots: bool  # typed slot requests work at all
    cross_field: bool  # a per-node request must be pinned by a per-job one and the reverse (before 23.02.6)
    tres_separator: str  # "gres:gpu" or "gres/gpu"
    parts: bool = False  # a part of a GPU can be asked for in its place, and taken back (23.11.5 on)
    same_second: bool = False  # a job may start in the very second in which its last run ended (26.05)


UNKNOWN = ("jobs", "nodes", "users")  # where nobody says what is private, nothing of others is told


@dataclass(frozen=True, slots=True)
class SchedulerSetup:
    """What slurm.conf says that matters to us."""

    cluster_name: str
    disable_job_shrink: bool
    accrue_always: bool  # a job that waits under a lease gathers age priority, or there is none to gather
    scheduler_parameters: str
    plugins: str  # JobSubmitPlugins
    task_prolog: str = ""  # TaskProlog
    preempts_by_tier: bool = False  # jobs of a higher partition are started in the place of a lower one's
    accounts_hold: bool = False  # nobody can name an account that is not his; else it is what its user typed
    private: tuple[str, ...] = UNKNOWN  # PrivateData: what users are not told of others


@dataclass(frozen=True, slots=True)
class Pulse:
    """A cheap look: has anything happened that is worth a cycle, and how does slurmctld fare."""

    pending: int
    running: int
    newest_job: int  # greatest job id in the queue
    digest: int  # changes whenever the set of (job, state, reason) does


@dataclass(frozen=True, slots=True)
class Passes:
    """Counts of Slurm's own passes since slurmctld started, from sdiag; "did not start" is judged by these."""

    main: int  # main scheduler cycles
    backfill: int  # backfill cycles
    server_threads: int
    rpc_time_us: int  # time that slurmctld spent answering questions (queue, nodes ...), ours and others'
    started: int  # epoch of sdiag's data start
    told: int = 0  # epoch by slurmctld's own clock, when it answered; 0: not told


Left = Callable[[], float]  # for how many seconds from now something may still be written; 0 and less: no more


STANDS_S = 5.0  # as long as edits of one batch may take


@dataclass
class Series:
    """Edits that follow one another in several calls: what is read after one is what is read before the next.

    Of a long queue each look costs slurmctld the same, however few of its jobs are meant.
    """

    coming: Sequence[Edit] = ()  # with the next call, as far as it is known
    _found: Sequence[Job] = ()
    _of: frozenset[int] = frozenset()  # jobs that were asked for
    _at: float = -math.inf

    def leave(self, found: Sequence[Job], now: float) -> None:
        self._found, self._of, self._at = found, frozenset(edit.job for edit in self.coming), now

    def take(self, edits: Sequence[Edit], now: float) -> Sequence[Job] | None:
        """Once; none where it was read for other jobs, or too long ago to write by it."""
        age, self._at = now - self._at, -math.inf
        return self._found if 0 <= age < STANDS_S and self._of.issuperset(edit.job for edit in edits) else None


def unbounded() -> float:
    """Of who asks nobody: a person at his terminal."""
    return math.inf


class Slurm(Protocol):
    name: str
    keeps_at_once: int  # leases that are renewed between two looks at their jobs

    def capabilities(self) -> Capabilities: ...

    def setup(self) -> SchedulerSetup: ...

    def snapshot(self) -> Snapshot:
        """Nodes, partitions, reservations and the whole queue, once."""

    def jobs(self, ids: Sequence[int]) -> dict[int, Job]:
        """These jobs only, as they are now; one that is gone is missing from the answer."""

    def records(self, ids: Iterable[int]) -> Sequence[Job]:
        """All records of these jobs and arrays, as they are now, also when they have ended."""

    def apply(self, edits: Sequence[Edit], left_s: Left = unbounded, series: Series | None = None) -> list[EditResult]:
        """Write, re-read, compare; one result per edit, in order. Those for which no time was left are LATE."""

    def movable(self, qos: Collection[str], partitions: Collection[str]) -> None:
        """From now on jobs of these QOS and partitions may be moved without a word of theirs, and no others."""

    def bound(self, jobs: Sequence[int]) -> dict[int, str]:
        """Of these running jobs those that would lose by a requeue what no pin gives back, and why."""

    def lift(self, jobs: Sequence[int], left_s: Left = unbounded) -> None:
        """End the fences of these jobs; one that has ended by itself is no error."""

    def pulse(self) -> Pulse: ...

    def passes(self) -> Passes: ...

    def close(self) -> None: ...
