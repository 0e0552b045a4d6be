"""What a policy must remember between plans. In: the memory of the last plan. Out: that for the next one.

Everything else is worked out anew from the queue as it stands. Losing it is neutral: a job that had waited before
memory began counts as having declined for all of its wait, so nobody is kept longer, and a head's watch begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pal_slurm.model import Job, JobRef, Reason
from pal_slurm.policy.entitlement.debts import NO_DEBTS, Debts, debts_of
from pal_slurm.policy.seams import Lessons, Promised

VERSION = 3
READABLE = (1, 2, VERSION)
GRACE_S = 60.0
BY_NUMBER = (Reason.BETTER_SPAN_SOON, Reason.BETTER_GPUS_SOON)  # reasons of promises, in versions 1 and 2
NO_PLAN_S = 600.0  # a head whose start nobody can plan (running jobs without limit) is let go after this


@dataclass(frozen=True, slots=True)
class Head:
    """The first of a queue, for which later jobs must leave room."""

    since: float
    until: float  # past this it is overdue: the first start that was planned for it, and some grace


def head_from(start: float, now: float) -> Head:
    """A new one, that was promised this start."""
    return Head(now, now + NO_PLAN_S if math.isinf(start) else max(start, now) + GRACE_S)


@dataclass(frozen=True, slots=True)
class Memory:
    begun: float | None = None  # when the first plan was made; None: nothing is remembered
    declining: Mapping[JobRef, float] = field(default_factory=dict)  # since when a job declines what it is offered
    heads: Mapping[JobRef, Head] = field(default_factory=dict)
    promised: Mapping[JobRef, Promised] = field(default_factory=dict)  # to those of them whose patience keeps its word
    lessons: Lessons = ()  # of the patience; another one can't read them
    learner: str = ""  # its name
    debts: Debts = NO_DEBTS  # where jobs are owed something

    def declines_since(self, job: Job) -> float | None:
        """None: it has not declined yet. The time runs on while nothing at all is free for it."""
        since = self.declining.get(job.key)
        if since is None and (self.begun is None or job.submit < self.begun):
            return float(job.submit)
        return since

    def as_of(self, now: float) -> Memory:
        """Without what a clock that was ahead has written: nobody waits for a time that has not come."""
        if self.begun is not None and self.begun > now:
            return NO_MEMORY
        declining = {key: since for key, since in self.declining.items() if since <= now}
        heads = {key: head for key, head in self.heads.items() if head.since <= now}
        promised = {key: promise for key, promise in self.promised.items() if key in declining}
        return replace(self, declining=declining, heads=heads, promised=promised, debts=self.debts.as_of(now))

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return {
            "version": VERSION,
            "begun": self.begun,
            "declining": [[*key[:2], since] for key, since in self.declining.items()],
            "heads": [[*key[:2], head.since, head.until] for key, head in self.heads.items()],
            "promised": [[*key[:2], p.until, p.badness, p.reason.value] for key, p in self.promised.items()],
            "lessons": [list(row) for row in self.lessons],
            "learner": self.learner,
            "debts": self.debts.plain(),
        }


NO_MEMORY = Memory()


def memory_of(plain: object) -> Memory:
    """What `plain` made; anything else is no memory."""
    if not isinstance(plain, dict) or plain.get("version") not in READABLE:
        return NO_MEMORY
    try:
        begun = plain["begun"]
        declining = {JobRef(int(job), int(submit)): since for job, submit, since in map(_numbers, plain["declining"])}
        rows = map(_numbers, plain["heads"])
        heads = {JobRef(int(job), int(submit)): Head(since, until) for job, submit, since, until in rows}
        promised = dict(_promised(plain.get("promised", ())))
        lessons = tuple(tuple(map(float, _numbers(row))) for row in plain.get("lessons", ()))
        learner = plain.get("learner", "")
        if not isinstance(learner, str):
            raise TypeError("a learner has a name")
        debts = debts_of(plain["debts"]) if "debts" in plain else NO_DEBTS
        begun = None if begun is None else float(begun)
        return Memory(begun, declining, heads, promised, lessons, learner, debts)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return NO_MEMORY


def _promised(rows: Iterable[Iterable[object]]) -> Iterator[tuple[JobRef, Promised]]:
    """Without those whose reason this pald does not know: their jobs are asked again."""
    for *row, why in rows:
        job, submit, until, badness = _numbers(row)
        with suppress(ValueError, IndexError):
            reason = BY_NUMBER[why] if isinstance(why, int) else Reason(str(why))
            yield JobRef(int(job), int(submit)), Promised(until, badness, reason)


def _numbers(row: Iterable[object]) -> list[int | float]:
    numbers = list(row)
    if not all(isinstance(n, int | float) and math.isfinite(n) for n in numbers):
        raise ValueError("a memory holds numbers only")
    return numbers  # type: ignore[return-value]  # just looked at
