"""Since when each job waits for what it is owed. In: the last plan's Debts, a snapshot. Out: Debts for the next plan.

Only time counts in which a job could have started: who holds a job for a week has no week's debt. And when one job of
a user starts, those that came behind it have not waited for anything but it: so a flood is as old as its last start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pal_slurm.model import Job, JobRef, Snapshot
from pal_slurm.policy.turn import BLOCKED, Turn, turn_of

Person = tuple[str, str]  # an account, and a user in it


class Served(NamedTuple):
    """A job of a person that was started."""

    at: float
    since: float  # it had waited since then


def person(job: Job) -> Person:
    return job.account, job.user


def could_start(job: Job, now: float) -> bool:
    """Nothing but GPUs keeps it: it is not held, waits for no other job, has begun, and is within its limits."""
    return turn_of(job, now)[0] not in (Turn.ASIDE, Turn.LATER) and job.why not in BLOCKED


@dataclass(frozen=True, slots=True)
class Debts:
    """Losing it is neutral: who waits has waited since he came, and whose jobs run was served when they began."""

    waited: Mapping[JobRef, float] = field(default_factory=dict)  # of those that can't start now: seconds before
    since: Mapping[JobRef, float] = field(default_factory=dict)  # of those that could not once: as if they came then
    served: Mapping[Person, tuple[Served, ...]] = field(default_factory=dict)  # the last in turn, and the last of all
    at: float = field(default=-math.inf, compare=False)  # of the last plan

    def after(self, seen: Snapshot) -> Debts:
        """As this snapshot shows it."""
        now = seen.taken
        waited: dict[JobRef, float] = {}
        since: dict[JobRef, float] = {}
        for job in seen.pending:
            if not job.gpu_job:
                continue
            before = next((self.waited[key] for key in _keys(job) if key in self.waited), None)
            if not could_start(job, now):
                waited[job.key] = self._so_far(job, now) if before is None else before
            elif before is not None:
                since[job.key] = now - before
            elif (later := next((self.since[key] for key in _keys(job) if key in self.since), None)) is not None:
                since[job.key] = later
        made = Debts(waited, since, at=now)
        return replace(made, served=self._served(seen, made._oldest(seen)))

    def _so_far(self, job: Job, now: float) -> float:
        """Of one that can't start for the first time; of one that we never saw before nobody knows since when."""
        return max(0.0, now - self.waits_since(job)) if job.submit < self.at else 0.0

    def waits_since(self, job: Job) -> float:
        own = job.lease.not_before if job.lease else None  # who says --begin does not wait until then
        came = float(max(job.since or job.submit, own or 0))
        return max(came, *(self.since.get(key, came) for key in _keys(job)))

    def in_line_since(self, job: Job) -> float:
        """Since when it is the next of its user's; what that user started before out of its turn does not count."""
        since = self.waits_since(job)
        return max((since, *(one.at for one in self.served.get(person(job), ()) if one.since <= since)))

    def as_of(self, now: float) -> Debts:
        """Without what a clock that was ahead has written."""
        since = {key: at for key, at in self.since.items() if at <= now}
        served = {who: tuple(one for one in some if one.at <= now) for who, some in self.served.items()}
        return Debts(self.waited, since, served, min(self.at, now))

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return {
            "at": self.at if math.isfinite(self.at) else 0.0,
            "waited": [[*key[:2], seconds] for key, seconds in self.waited.items()],
            "since": [[*key[:2], at] for key, at in self.since.items()],
            "served": [[*who, *one] for who, some in self.served.items() for one in some],
        }

    def _oldest(self, seen: Snapshot) -> dict[Person, float]:
        """Since when the first of each person's jobs waits."""
        found: dict[Person, float] = {}
        for job in seen.pending:
            if job.gpu_job and job.key not in self.waited:
                found[person(job)] = min(found.get(person(job), math.inf), self.waits_since(job))
        return found

    def _served(self, seen: Snapshot, oldest: Mapping[Person, float]) -> dict[Person, tuple[Served, ...]]:
        """Whoever neither waits nor runs is forgotten."""
        here = {person(job) for job in (*seen.pending, *seen.running) if job.gpu_job}
        served = {who: some for who, some in self.served.items() if who in here}
        known = {who: max(one.at for one in some) for who, some in served.items() if some}
        for job in seen.running:
            who = person(job)
            if job.gpu_job and job.start is not None and job.start > known.get(who, -math.inf):
                some = (*served.get(who, ()), Served(float(job.start), self.waits_since(job)))
                in_turn = [one for one in some if one.since <= oldest.get(who, math.inf)]
                served[who] = tuple(dict.fromkeys(max(starts, key=_latest) for starts in (in_turn, some) if starts))
        return served


def _latest(one: Served) -> tuple[float, float]:
    return one.at, -one.since


NO_DEBTS = Debts()


def debts_of(plain: Mapping[str, Any]) -> Debts:
    """What `plain` made; an error where it is something else."""
    served: dict[Person, tuple[Served, ...]] = {}
    for account, user, at, since in plain["served"]:
        if not isinstance(account, str) or not isinstance(user, str):
            raise TypeError("a person is an account and a user")
        served[account, user] = (*served.get((account, user), ()), Served(_number(at), _number(since)))
    waited, since_ = (
        {JobRef(int(_number(job)), int(_number(submit))): _number(value) for job, submit, value in plain[what]}
        for what in ("waited", "since")
    )
    return Debts(waited, since_, served, _number(plain["at"]))


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not abs(value) < 1e18:
        raise ValueError("a memory holds numbers only")
    return float(value)


def _keys(job: Job) -> tuple[JobRef, ...]:
    """Its own, and its array's: a task that was split off has waited with it."""
    return (job.key,) if job.array_id in (None, job.id) else (job.key, JobRef(job.array_id or 0, job.submit))
