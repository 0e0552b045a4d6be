"""Who comes first where jobs are owed something. In: a division, debts, the queue as it is. Out: an order, told debts.

Users who have fewer GPUs than they are owed come before those who have their part. Among those users the first job of
each comes by its debt: the share of its best GPUs' time that it is owed, for as long as it has waited for that.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pal_slurm.model import NO_SHARES, Due, FairShares, Job, JobRef, Snapshot
from pal_slurm.policy.entitlement.debts import NO_DEBTS, Debts, Person, could_start, person

if TYPE_CHECKING:
    from pal_slurm.policy.seams import Order, Progress

LEAST = 0.1  # of an equal part, and of the debt of one that is owed all its time: so much everybody is owed
NEARLY = 1.0 - 1e-6  # of what he is owed: a division is exact to less than that
MOST_ROWS = 4096  # jobs that are reckoned with, the first of each user; the others are owed the least
SHORT, SERVED, NOT_NOW = 0.0, 1.0, 2.0  # whose user has less than he is owed; who has; who can't start


class Precedence(NamedTuple):
    """Where a job stands in the order: what is least comes first."""

    tier: float
    level: float = 0.0
    debt: float = 0.0


LAST = Precedence(NOT_NOW)


@dataclass(frozen=True)
class DueNow:
    entitlement: str
    pools: tuple[str, ...] = ()
    shares: Mapping[JobRef, tuple[float, ...]] = field(default_factory=dict)
    rates: Mapping[JobRef, float] = field(default_factory=dict)  # what that is of its best speed
    fair: FairShares = NO_SHARES
    note: str = ""
    gpus: Mapping[Person, float] = field(default_factory=dict)  # that each user is owed, of whatever model
    least: float = 0.0  # that he is owed at least
    claims: Mapping[JobRef, float] = field(default_factory=dict)  # `rates` of those whose user said pal:by, with that
    debts: Debts = NO_DEBTS
    seen: Snapshot | None = field(default=None, compare=False, repr=False)  # the queue as it is now

    def at(self, seen: Snapshot, debts: Debts) -> DueNow:
        """The same for this queue; `debts` are those of the last plan."""
        return replace(self, debts=debts.after(seen), seen=seen)

    def owed_s(self, job: Job, now: float) -> float:
        return max(0.0, now - self.debts.in_line_since(job)) * max(LEAST, self.rates.get(job.key, 0.0))

    def told(self, job: Job, now: float) -> Due:
        fair, who = self.fair, person(job)
        parts = fair.of_account(job) * fair.inside(job)
        return Due(
            self.entitlement, entity_of(job), parts, self.pools, self.shares.get(job.key, ()), self.owed_s(job, now),
            job.user, self.owed_gpus(who) if self.gpus else None, self._had[who], fair.asked, bool(fair.untold),
        )  # fmt: skip

    def owed_gpus(self, who: Person) -> float:
        return max(self.least, self.gpus.get(who, 0.0))

    @cached_property
    def _had(self) -> Counter[Person]:
        """GPUs; one that two of a user's jobs share is one."""
        had, shared = Counter[Person](), defaultdict[Person, set[tuple[str, int]]](set)
        for job in () if self.seen is None else self.seen.running:
            if job.parts:
                shared[person(job)].update((node, i) for node, of in zip(job.nodes, job.parts, strict=True) for i in of)
            else:
                had[person(job)] += sum(map(len, job.gpus))
        for who, devices in shared.items():
            had[who] += len(devices)
        return had

    @cached_property
    def _wait(self) -> frozenset[Person]:
        if self.seen is None:
            return frozenset()
        return frozenset(person(job) for job in self.seen.pending if job.gpu_job and could_start(job, self.seen.taken))

    def places(self, order: Order, released: Collection[int]) -> dict[int, Precedence]:
        """Where each job stands, by its id; `released`: who is as good as running."""
        found: dict[int, Precedence] = {}
        lines: dict[Person, list[Job]] = defaultdict(list)
        had, now = self._had.copy(), 0.0 if self.seen is None else self.seen.taken
        for job in () if self.seen is None else self.seen.pending:
            if not job.gpu_job:
                found[job.id] = Precedence(SHORT, 0.0, -LEAST * max(0.0, now - self.debts.waits_since(job)))
            elif job.id in released:
                had[person(job)] += _gpus(job)
            elif could_start(job, now):
                lines[person(job)].append(job)
            else:
                found[job.id] = LAST
        for who, line in lines.items():
            found.update(self._in_line(line, order, had[who], max(self.owed_gpus(who), 1e-9), now))
        return found

    def tasks(self, array: Job, many: int, tier: float) -> int:
        """Of its `many` tasks so many may start in one plan: as its user's part has room for, while others wait.

        The rest comes in the next plan, behind those who are short then.
        """
        if tier != SHORT or self.seen is None:
            return many
        who = person(array)
        if self._wait <= {who}:
            return many
        return max(1, math.ceil((NEARLY * self.owed_gpus(who) - self._had[who]) / width(array)))

    def _in_line(
        self, line: list[Job], order: Order, had: int, owed: float, now: float
    ) -> Iterator[tuple[int, Precedence]]:
        """One user's. What he claims for some says which comes first of his own, and nothing more: by its own debt."""
        debts = {job.id: self.owed_s(job, now) for job in line}

        def urgency(job: Job) -> tuple[float, ...]:
            rate = max(LEAST, self.rates.get(job.key, 0.0))
            return (-debts[job.id] / rate * max(LEAST, self.claims.get(job.key, rate)), *order.key(job, None))

        ahead = had
        for number, job in enumerate(sorted(line, key=urgency)):
            tier, level = (SERVED, ahead / owed) if ahead >= NEARLY * owed else (SHORT, number / owed)
            yield job.id, Precedence(tier, level, 0.0 if number else -debts[job.id])
            ahead += _gpus(job)


@dataclass(frozen=True)
class OwedFirst:
    """An order of its own, over another."""

    places: Mapping[int, Precedence]
    base: Order

    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return (*self.places.get(job.id, LAST), *self.base.key(job, progress))


def entity_of(job: Job) -> str:
    return job.account or job.user


def width(job: Job) -> int:
    return (job.shape or job.roughly).least_gpus or 1


def _gpus(job: Job) -> int:
    return width(job) * tasks_of(job)


def tasks_of(job: Job) -> int:
    """That may run at once."""
    return min(len(job.array_tasks) or 1, job.array_limit or MOST_ROWS)
