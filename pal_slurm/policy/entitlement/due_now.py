"""What each job of a queue is owed now, where pald follows an entitlement. In: a snapshot, weights. Out: DueNow.

Nobody is stopped for another's share: users who have fewer GPUs than they are owed come first, and of the pools a job
takes one of which it is owed something. Among those users the first job of each comes by its debt: the share of its
best GPUs' time that it is owed, for as long as it has waited for that (debts.py). Who is owed nothing has a small debt
and a small share too, or a busy queue would never come to him.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pal_slurm.model import NO_SHARES, Due, FairShares, FloatArray, Job, JobRef, Knowledge, Snapshot
from pal_slurm.policy.entitlement.debts import NO_DEBTS, Debts, Person, could_start, person
from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.entitlement.water_filling import Entities
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.patience.choosy import SHARE
from pal_slurm.policy.pools.billing import weight
from pal_slurm.policy.pools.choice import UNKNOWN_S, PoolMap

if TYPE_CHECKING:
    from pal_slurm.policy.seams import Entitlement, Order, Progress

LEAST = 0.1  # of an equal part, and of the debt of one that is owed all its time: so much everybody is owed
MOST_ROWS = 4096  # jobs that are reckoned with, the first of each user; the others are owed the least
CHEAPEST = 0.01  # of the dearest price: no GPU is for nothing
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
            self.entitlement, owner_of(job), parts, self.pools, self.shares.get(job.key, ()), self.owed_s(job, now),
            job.user, self.owed_gpus(who) if self.gpus else None, self._had[who], fair.asked, bool(fair.untold),
        )  # fmt: skip

    def owed_gpus(self, who: Person) -> float:
        return max(self.least, self.gpus.get(who, 0.0))

    @cached_property
    def _had(self) -> Counter[Person]:
        had: Counter[Person] = Counter()
        for job in () if self.seen is None else self.seen.running:
            had[person(job)] += sum(map(len, job.holds))
        return had

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

    def tasks(self, array: Job, tier: float) -> int:
        """How many of its tasks may start in one plan: as many as its user's part has room for, while others wait.

        The rest comes in the next plan, behind those who are short then.
        """
        if tier != SHORT or self.seen is None:
            return len(array.array_tasks)
        who = person(array)
        if not any(
            person(job) != who for job in self.seen.pending if job.gpu_job and could_start(job, self.seen.taken)
        ):
            return len(array.array_tasks)
        return max(1, math.ceil((self.owed_gpus(who) - self._had[who]) / _width(array)))

    def _in_line(
        self, line: list[Job], order: Order, had: int, owed: float, now: float
    ) -> Iterator[tuple[int, Precedence]]:
        """One user's. What he claims for some of them says which comes first of his own, and nothing more."""
        debts = {job.id: self.owed_s(job, now) for job in line}
        most = max(debts.values())

        def urgency(job: Job) -> tuple[float, ...]:
            rate = max(LEAST, self.rates.get(job.key, 0.0))
            return (-debts[job.id] / rate * max(LEAST, self.claims.get(job.key, rate)), *order.key(job, None))

        ahead = had
        for number, job in enumerate(sorted(line, key=urgency)):
            tier, level = (SERVED, ahead / owed) if ahead >= owed else (SHORT, number / owed)
            yield job.id, Precedence(tier, level, 0.0 if number else -most)
            ahead += _gpus(job)


@dataclass(frozen=True)
class OwedFirst:
    """An order of its own, over another."""

    places: Mapping[int, Precedence]
    base: Order

    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return (*self.places.get(job.id, LAST), *self.base.key(job, progress))


def owner_of(job: Job) -> str:
    return job.account or job.user


def due_now(
    entitlement: Entitlement, seen: Snapshot, knowledge: Knowledge, fair: FairShares, of_limit: float | None
) -> DueNow:
    """NoAnswer, BadInput: there is no such division."""
    cluster, now = seen.cluster, seen.taken
    pools = PoolMap(cluster)
    needs = Needs(cluster, seen.reservations, now, knowledge.pools)

    found: dict[tuple[Need, int], tuple[float, ...]] = {}

    def rates_of(job: Job) -> tuple[float, ...]:
        need, app = needs.of(job) or needs.guess(job), knowledge.apps.get(job.hint.app, job.user)
        if (need, id(app)) not in found:
            found[need, id(app)] = pools.by_kind(need, app, needs)
        return found[need, id(app)]

    rows = _as_many([(job, n, rates) for job, n in _jobs(seen) if any(rates := rates_of(job))])
    rows.sort(key=lambda row: (row[0].submit, row[0].id))  # `fifo` goes by who came first
    if not rows:
        return DueNow(entitlement.name, tuple(pools.kinds), fair=fair)
    jobs = [job for job, n, _ in rows for _ in range(n)]
    names = sorted({owner_of(job) for job in jobs})
    of_account = {owner_of(job): fair.of_account(job) for job in jobs}
    rest = np.array([_rest_s(job, now, of_limit) for job in jobs])
    by_pool = np.array([rates for _, n, rates in rows for _ in range(n)])
    division = Division(
        by_pool,
        np.array(pools.gpus_of_kind),
        np.array([float(_width(job)) for job in jobs]),
        np.array([fair.of_account(job) * fair.inside(job) for job in jobs]),
        steps=rest,
        age_s=np.array([max(0.0, now - job.submit) for job in jobs]),
        isolated_s=np.array([_ran_s(job, now) for job in jobs]),
        left_s=np.array([fair.deadlines.get(job.id, math.inf) - now for job in jobs]),
        prices=_prices(seen, knowledge, pools),
        entity=np.array([names.index(owner_of(job)) for job in jobs]),
        names=tuple(str(job.id) for job in jobs),
    )
    owners = Entities(np.array([of_account[name] for name in names]))
    owed = entitlement.shares(division, owners)
    share, claims = owed.share, dict[JobRef, float]()
    if claimants := {person(job) for job in jobs if _sooner(job, fair)}:
        wished = np.array([_by(job, fair) - now for job in jobs])
        claimed = entitlement.shares(replace(division, left_s=wished), owners)
        share, claims = _within_their_own(jobs, claimants, owed, claimed)
    told = {job.key: i for i, job in enumerate(jobs)}
    gpus: dict[Person, float] = defaultdict(float)
    for job, of_time in zip(jobs, owed.share.sum(axis=1).tolist(), strict=True):
        gpus[person(job)] += _width(job) * of_time
    return DueNow(
        entitlement.name, tuple(pools.kinds), {key: tuple(share[i].tolist()) for key, i in told.items()},
        {key: float(owed.rate[i]) for key, i in told.items()}, fair, owed.note, dict(gpus),
        LEAST * sum(pools.gpus_of_kind) / len(gpus), claims,
    )  # fmt: skip


def _sooner(job: Job, fair: FairShares) -> bool:
    return job.id in fair.wishes and _by(job, fair) < fair.deadlines.get(job.id, math.inf)


def _by(job: Job, fair: FairShares) -> float:
    """When it is to be done, by its user's word too: the first of the two."""
    return min(fair.wishes.get(job.id, math.inf), fair.deadlines.get(job.id, math.inf))


def _within_their_own(
    jobs: list[Job], claimants: Collection[Person], owed: Shares, claimed: Shares
) -> tuple[FloatArray, dict[JobRef, float]]:
    """pal:by costs its user nothing. So it divides anew what is his, and takes from nobody else (P12)."""
    has, would = Counter[Person](), Counter[Person]()
    of_time = zip(jobs, owed.share.sum(axis=1).tolist(), claimed.share.sum(axis=1).tolist(), strict=True)
    for job, plainly, by_claims in of_time:
        has[person(job)] += _width(job) * plainly
        would[person(job)] += _width(job) * by_claims
    share, claims = owed.share.copy(), dict[JobRef, float]()
    for i, job in enumerate(jobs):
        if (who := person(job)) in claimants:
            part = min(1.0, has[who] / would[who]) if would[who] > 0 else 1.0
            share[i], claims[job.key] = claimed.share[i] * part, float(claimed.rate[i] * part)
    return share, claims


def _jobs(seen: Snapshot) -> Iterator[tuple[Job, int]]:
    """Who runs, and who waits for GPUs: as many as their tasks are."""
    for job in seen.running:
        if job.gpu_job:
            yield job, 1
    for job in seen.pending:
        if job.gpu_job and could_start(job, seen.taken):
            yield job, _tasks(job)


def _as_many(rows: list[tuple[Job, int, tuple[float, ...]]]) -> list[tuple[Job, int, tuple[float, ...]]]:
    """One user's thousands keep out no job of another's."""
    of_user: Counter[tuple[str, str]] = Counter()
    for job, n, _ in rows:
        of_user[job.account, job.user] += n
    each, left = MOST_ROWS, MOST_ROWS
    for number, many in enumerate(sorted(of_user.values())):
        each = max(1, left // (len(of_user) - number))
        left -= min(many, each)
    found, had, left = [], Counter[tuple[str, str]](), MOST_ROWS
    for job, n, rates in rows:
        some = min(n, each - had[job.account, job.user], left)
        if some > 0:
            found.append((job, some, rates))
            had[job.account, job.user] += some
            left -= some
    return found


def _width(job: Job) -> int:
    return (job.shape or job.roughly).least_gpus or 1


def _gpus(job: Job) -> int:
    return _width(job) * _tasks(job)


def _tasks(job: Job) -> int:
    """That may run at once."""
    return min(len(job.array_tasks) or 1, job.array_limit or MOST_ROWS)


def _ran_s(job: Job, now: float) -> float:
    return 0.0 if job.pending or job.start is None else max(0.0, now - job.start)


def _rest_s(job: Job, now: float, of_limit: float | None) -> float:
    """Of work on its best GPUs, as far as its limit tells; who has run longer than that goes on for a minute."""
    whole = (job.time_limit_s or UNKNOWN_S) * (SHARE if of_limit is None else of_limit)
    return max(60.0, whole - _ran_s(job, now))


def _prices(seen: Snapshot, knowledge: Knowledge, pools: PoolMap) -> FloatArray:
    """What a GPU of each model bills where it bills least; where nothing is told all are alike."""
    cluster = seen.cluster
    parts = list(cluster.partitions) or [""]
    told = [
        min(max(weight(cluster, part, model, knowledge.pools) for model in kind.split("+")) for part in parts)
        for kind in pools.kinds
    ]
    most = max(told, default=0.0)
    return np.array([max(price, CHEAPEST * most) if most else 1.0 for price in told])
