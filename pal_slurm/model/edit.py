"""What we write to Slurm: one update of one job each. In: a permitted decision. Out: Edit, and what became of it.

Each kind says which state its job must be in; a backend that finds the job in another writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pal_slurm.model.job import Job, JobState, Request


class EditKind(StrEnum):
    PIN = "pin"  # nodes, node count, GRES, partition where given, and start time now: one update
    PLAIN = "plain"  # start time now, the request as it was
    RENEW = "renew"  # start time = until
    LEASE = "lease"  # the same, for a job whose lease ran out
    UNPIN = "unpin"  # the original request back; start time = until, or now
    WARN = "warn"  # the signal that a user named: save
    REQUEUE = "requeue"  # back to the queue, un-pinned and leased, in one request
    EXCLUDE = "exclude"  # nodes that it is not to be put on, beside those that its user excluded
    INCLUDE = "include"  # only what its user excluded is
    RENICE = "renice"  # what got it in front of a waiting head is taken back
    FENCE = "fence"  # a reservation around what it leaves and takes, so that nobody gets in between

    @property
    def needs(self) -> JobState:
        running = self in (EditKind.WARN, EditKind.REQUEUE, EditKind.RENICE, EditKind.FENCE)
        return JobState.RUNNING if running else JobState.PENDING


@dataclass(frozen=True, slots=True)
class _OfOneJob:
    job: int
    task: int | None = None  # one task of an array that still shares its record; Slurm splits it off
    seen: Job | None = field(default=None, compare=False, repr=False, kw_only=True)  # as it stood when it was decided


@dataclass(frozen=True, slots=True)
class Pin(_OfOneJob):
    nodes: tuple[str, ...] = ()
    slots: tuple[int, ...] | None = None  # None: node precision, GRES stays as it is
    partition: str | None = None
    original: Request | None = None  # what an undo has to restore
    shard: bool = False  # its one GPU is asked for as a part of it: another may have it too
    kind: Literal[EditKind.PIN] = field(default=EditKind.PIN, init=False)


@dataclass(frozen=True, slots=True)
class Plain(_OfOneJob):
    kind: Literal[EditKind.PLAIN] = field(default=EditKind.PLAIN, init=False)


@dataclass(frozen=True, slots=True)
class Renew(_OfOneJob):
    until: int = field(kw_only=True)
    between: bool = False  # also while the nodes of its last run are not yet done with it
    own: bool = False  # `until` is its user's own begin time
    kind: Literal[EditKind.RENEW] = field(default=EditKind.RENEW, init=False)


@dataclass(frozen=True, slots=True)
class LeaseAgain(_OfOneJob):
    until: int = field(kw_only=True)
    kind: Literal[EditKind.LEASE] = field(default=EditKind.LEASE, init=False)


@dataclass(frozen=True, slots=True)
class Unpin(_OfOneJob):
    until: int | None = None  # leased until then; None: plain Slurm's
    own: bool = field(default=False, kw_only=True)  # `until` is its user's own begin time instead
    original: Request | None = None
    nice: int | None = None  # None: as it is
    between: bool = False  # also while the nodes of its last run are not yet done with it
    nodes: tuple[str, ...] = ()  # of the pin: what stands otherwise is its user's, and stays; none: not known, all goes
    partition: str | None = None  # of the pin
    kind: Literal[EditKind.UNPIN] = field(default=EditKind.UNPIN, init=False)


@dataclass(frozen=True, slots=True)
class Exclude(_OfOneJob):
    nodes: tuple[str, ...] = ()
    kind: Literal[EditKind.EXCLUDE] = field(default=EditKind.EXCLUDE, init=False)


@dataclass(frozen=True, slots=True)
class Include(_OfOneJob):
    kind: Literal[EditKind.INCLUDE] = field(default=EditKind.INCLUDE, init=False)


@dataclass(frozen=True, slots=True)
class Warn(_OfOneJob):
    signal: str = field(kw_only=True)
    to_script: bool = False  # to the batch script alone; else to the steps alone
    kind: Literal[EditKind.WARN] = field(default=EditKind.WARN, init=False)


@dataclass(frozen=True, slots=True)
class Requeue(_OfOneJob):
    until: int = field(kw_only=True)
    original: Request | None = None
    nice: int | None = None  # None: as it is
    kind: Literal[EditKind.REQUEUE] = field(default=EditKind.REQUEUE, init=False)


@dataclass(frozen=True, slots=True)
class Renice(_OfOneJob):
    nice: int = field(kw_only=True)
    until: int | None = None  # no held job starts sooner by this edit: some releases let it go, and it is held again
    anew: bool = False  # somebody wrote over our nice, and kept the priority that it had brought: Slurm reckons it anew
    kind: Literal[EditKind.RENICE] = field(default=EditKind.RENICE, init=False)


@dataclass(frozen=True, slots=True)
class Fence(_OfOneJob):
    """It ends by itself; sooner, when pald lifts it (`Slurm.lift`)."""

    nodes: tuple[str, ...] = field(kw_only=True)
    until: int = field(kw_only=True)
    kind: Literal[EditKind.FENCE] = field(default=EditKind.FENCE, init=False)


Edit = Pin | Plain | Renew | LeaseAgain | Unpin | Exclude | Include | Warn | Requeue | Renice | Fence
OfRunning = Warn | Requeue | Renice | Fence


def until(edit: Edit) -> int | None:
    """The end of the lease that it gives, if it gives one."""
    return edit.until if isinstance(edit, Renew | LeaseAgain | Unpin | Requeue) else None


NOT_SENT = "not sent: "  # begins what is said of an edit that came too late: nobody refused it
LATE = f"{NOT_SENT}the time in which it might be written was over"  # it is due again in the next cycle


class Outcome(StrEnum):
    DONE = "done"  # re-read and found as asked
    STARTED = "started"  # no longer pending: it ran before our edit arrived
    GONE = "gone"  # no such job any more
    REFUSED = "refused"  # slurmctld said no and nothing changed
    PARTIAL = "partial"  # slurmctld said no, or yes, and only part of it stands
    UNKNOWN = "unknown"  # no answer; the next cycle finds out


@dataclass(frozen=True, slots=True)
class EditResult:
    edit: Edit
    outcome: Outcome
    said: str = ""  # slurmctld's own words, or what differs
    after: Job | None = None  # the record as re-read
