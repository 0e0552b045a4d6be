"""What pald remembers of a job between two cycles. In: the queue, the ledger. Out: an JobEntry per job.

Losing it costs nothing: a pald that starts anew asks the ledger, and learns by one more refusal which pins are no use.
What the policy remembers is its own (policy/memory.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.model import Intent, Job, JobRef, Pin, Snapshot
from pal_slurm.slurm.port import Passes
from pal_slurm.store import Ledger


class Whose(Enum):
    """A begin time."""

    OURS = auto()  # lua wrote it, or we did
    THEIRS = auto()  # somebody wrote it, and it was still to come when we first saw it
    PAUSED = auto()  # the same, said by us because pald was paused
    LET_GO = auto()  # it was in the past already: "start now", said by us, by `palctl undo` or by its user


@dataclass(slots=True)
class JobEntry:
    begin: int | None = None  # the begin time that the next two are about: a new one is a new question
    whose: Whose | None = None
    leased_again: int | None = None  # how often, after its lease had run out; None: nobody asked yet
    lease_end: int = 0  # what we last wrote, for a job whose record does not show it
    let_go_at: int | None = None  # an array, all tasks that waited: at its %N Slurm tells no begin time of the rest
    held_back: float = 0.0  # its pin was taken back: no new one until then
    refused: bool = False  # a pin of it was: it goes plain
    declined_since: float | None = None  # when it first could have started on a node that is excluded for it
    excluded_enough: bool = False  # no node is excluded for it any more
    paused: bool = False  # we have just let it go because of a pause
    odd: bool = False  # planning fails where it is
    started: bool = False  # we let it go: it is nobody's rival
    looked: dict[int, Passes] = field(default_factory=dict)  # by step: Slurm's passes when it was first looked for
    told: dict[int | None, tuple[str, ...]] = field(default_factory=dict)  # by task: what `palctl why` was told last

    def of(self, begin: int | None) -> JobEntry:
        """The same, knowing nothing of any other begin time."""
        if begin != self.begin:
            self.begin, self.whose, self.leased_again = begin, None, None
        return self


@dataclass(frozen=True, slots=True)
class ReasonTold:
    """That `palctl why` was told something of a job; to be remembered once it is on disk."""

    entry: JobEntry
    task: int | None
    says: tuple[str, ...]

    def remember(self) -> None:
        self.entry.told[self.task] = self.says


@dataclass
class Entries:
    since: float | None = None  # of edits before then the ledger knows nothing; None: it was not asked yet
    _jobs: dict[JobRef, JobEntry] = field(default_factory=dict)

    def restore(self, snapshot: Snapshot, ledger: Ledger, leases: LeaseRules) -> None:
        """Once: what an earlier pald meant."""
        if self.since is not None:
            return
        leased = [job.key for job in snapshot.pending if job.is_leased(snapshot.taken)]
        for key, end in ledger.lease_ends(leased).items():
            self[key].lease_end = end
        for key, end in ledger.given_back(snapshot.taken - leases.most_s).items():
            self[key].held_back = float(end - leases.least_s)
        self.since = ledger.since(snapshot.taken)

    def keep(self, snapshot: Snapshot) -> None:
        """Whoever neither waits nor runs any more is forgotten."""
        there = {key for job in (*snapshot.pending, *snapshot.running) for key in keys(job)}
        self._jobs = {key: entry for key, entry in self._jobs.items() if key in there}

    def __getitem__(self, key: JobRef) -> JobEntry:
        entry = self._jobs.get(key)
        if entry is None:
            entry = self._jobs[key] = JobEntry()
        return entry

    def of_array(self, job: Job) -> JobEntry:
        """What an array's tasks share."""
        return self[keys(job)[-1]]

    def counted(self, intent: Intent, passes: Passes, fence: int, ending: Collection[str] = ()) -> Intent:
        """Slurm's passes count from our first look at an edit: one that was on its way before has not seen it, and
        many edits at once make many passes. Of an earlier leader's nothing but what he wrote down is known.

        `ending`: nodes on which Slurm starts nothing yet, for it is not done with another job there; none counts.
        """
        looked = self[JobRef(intent.edit.job, intent.submit)].looked
        if isinstance(intent.edit, Pin) and not set(intent.edit.nodes).isdisjoint(ending):
            looked[intent.id] = passes
        if intent.fence != fence and intent.id not in looked:
            return intent
        first = looked.setdefault(intent.id, passes)
        return replace(intent, passes_main=first.main, passes_backfill=first.backfill)

    def started(self, job: Job) -> bool:
        found = (self._jobs.get(key) for key in keys(job))
        return any(entry is not None and entry.started for entry in found)

    def odd(self, job: Job) -> bool:
        return (found := self._jobs.get(job.key)) is not None and found.odd

    def held_back(self, now: float) -> Mapping[JobRef, float]:
        return {key: entry.held_back for key, entry in self._jobs.items() if entry.held_back > now}

    def lease_ends(self, jobs: Iterable[Job]) -> Mapping[JobRef, int]:
        return {job.key: self._jobs[job.key].lease_end for job in jobs if job.key in self._jobs}


def keys(job: Job) -> tuple[JobRef, ...]:
    """Its own, and its array's: what was written to an array holds for a task that was split off."""
    return (job.key,) if job.array_id in (None, job.id) else (job.key, JobRef(job.array_id or 0, job.submit))
