"""What we write to Slurm. In: a permitted decision. Out: Edit, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pal_slurm.model.job import Job, Request


class EditKind(StrEnum):
    PIN = "pin"  # nodes, node count, GRES, partition where given, and start time now: one update
    PLAIN = "plain"  # start time now, the request as it was
    RENEW = "renew"  # start time = until
    LEASE = "lease"  # the same, for a job whose lease ran out
    UNPIN = "unpin"  # the original request back; start time = until, or now


@dataclass(frozen=True, slots=True)
class Edit:
    job: int
    kind: EditKind
    task: int | None = None  # one task of an array that still shares its record; Slurm splits it off
    nodes: tuple[str, ...] = ()
    slots: tuple[int, ...] | None = None  # None: node precision, GRES stays as it is
    until: int | None = None
    partition: str | None = None
    original: Request | None = None  # PIN, UNPIN: what to restore
    seen: Job | None = field(default=None, compare=False, repr=False)  # as it stood when this was decided


NOT_SENT = "not sent: "  # begins what is said of an edit that came too late: nobody refused it


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
