"""What each job of a queue is owed now, where pald follows an entitlement. In: a snapshot, weights. Out: DueNow.

Nobody is stopped for another's share: who is owed most starts first, and of the pools he takes one of which he is owed
something. A debt is the share of his best GPUs' time that he is owed, for as long as he has waited: so nothing need be
remembered. Who is owed nothing has a small debt too, or a busy queue would never come to him.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import NO_SHARES, Due, FairShares, FloatArray, Job, JobRef, Knowledge, Snapshot
from pal_slurm.policy.entitlement.division import Division
from pal_slurm.policy.entitlement.water_filling import Entities
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.patience.choosy import SHARE
from pal_slurm.policy.pools.billing import weight
from pal_slurm.policy.pools.choice import UNKNOWN_S, PoolMap

if TYPE_CHECKING:
    from pal_slurm.policy.seams import Entitlement, Order, Progress

LEAST = 0.1  # of the debt of one that is owed all its time: nobody waits over ten times as long as such a one
MOST_ROWS = 4096  # jobs that are reckoned with, the first of each user; the others are owed the least
CHEAPEST = 0.01  # of the dearest price: no GPU is for nothing


@dataclass(frozen=True)
class DueNow:
    entitlement: str
    pools: tuple[str, ...] = ()
    shares: Mapping[JobRef, tuple[float, ...]] = field(default_factory=dict)
    rates: Mapping[JobRef, float] = field(default_factory=dict)  # what that is of its best speed
    fair: FairShares = NO_SHARES
    note: str = ""

    def owed_s(self, job: Job, now: float) -> float:
        own = job.lease.not_before if job.lease else None  # who says --begin does not wait until then
        waited_s = max(0.0, now - max(job.since or job.submit, own or 0))
        return waited_s * max(LEAST, self.rates.get(job.key, 0.0))

    def told(self, job: Job, now: float) -> Due:
        shares = self.shares.get(job.key, ())
        parts = self.fair.of_account(job) * self.fair.inside(job)
        return Due(self.entitlement, owner_of(job), parts, self.pools, shares, self.owed_s(job, now))


@dataclass(frozen=True)
class OwedFirst:
    """An order of its own, over another."""

    due: DueNow
    base: Order
    now: float

    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        return (-self.due.owed_s(job, self.now), *self.base.key(job, progress))


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
        np.array([float((job.shape or job.roughly).least_gpus or 1) for job in jobs]),
        np.array([fair.of_account(job) * fair.inside(job) for job in jobs]),
        steps=rest,
        age_s=np.array([max(0.0, now - job.submit) for job in jobs]),
        isolated_s=np.array([_ran_s(job, now) for job in jobs]),
        left_s=np.array([_left_s(job, now, fair) for job in jobs]),
        prices=_prices(seen, knowledge, pools),
        entity=np.array([names.index(owner_of(job)) for job in jobs]),
        names=tuple(str(job.id) for job in jobs),
    )
    owed = entitlement.shares(division, Entities(np.array([of_account[name] for name in names])))
    told = {job.key: i for i, job in enumerate(jobs)}
    shares = {key: tuple(owed.share[i].tolist()) for key, i in told.items()}
    return DueNow(
        entitlement.name, tuple(pools.kinds), shares, {key: float(owed.rate[i]) for key, i in told.items()}, fair,
        owed.note,
    )  # fmt: skip


def _jobs(seen: Snapshot) -> Iterator[tuple[Job, int]]:
    """Who runs, and who waits for GPUs: as many as their tasks are."""
    for job in seen.running:
        if job.gpu_job:
            yield job, 1
    for job in seen.pending:
        if job.gpu_job and not job.dependency:
            yield job, min(len(job.array_tasks) or 1, job.array_limit or MOST_ROWS)


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


def _ran_s(job: Job, now: float) -> float:
    return 0.0 if job.pending or job.start is None else max(0.0, now - job.start)


def _rest_s(job: Job, now: float, of_limit: float | None) -> float:
    """Of work on its best GPUs, as far as its limit tells; who has run longer than that goes on for a minute."""
    whole = (job.time_limit_s or UNKNOWN_S) * (SHARE if of_limit is None else of_limit)
    return max(60.0, whole - _ran_s(job, now))


def _left_s(job: Job, now: float, fair: FairShares) -> float:
    """Until its deadline."""
    return fair.deadlines.get(job.id, math.inf) - now


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
