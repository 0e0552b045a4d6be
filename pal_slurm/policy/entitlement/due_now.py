"""What each job of a queue is owed now, where pald follows an entitlement. In: a snapshot, weights. Out: DueNow.

Nobody is stopped for another's share: what is owed says who comes first (precedence.py), and which pools a job takes:
one of which it is owed something. Who is owed nothing has a small share all the same, or a busy queue would never come
to him.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import FairShares, FloatArray, Job, JobRef, Knowledge, RunTimes, Snapshot
from pal_slurm.policy.entitlement.debts import Person, could_start, person
from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.entitlement.precedence import LEAST, MOST_ROWS, DueNow, entity_of, tasks_of, width
from pal_slurm.policy.entitlement.water_filling import Entities
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.pools.billing import weight
from pal_slurm.policy.pools.choice import PoolMap

if TYPE_CHECKING:
    from pal_slurm.policy.seams import Entitlement

CHEAPEST = 0.01  # of the dearest price: no GPU is for nothing


def due_now(
    entitlement: Entitlement, seen: Snapshot, knowledge: Knowledge, fair: FairShares, run_times: RunTimes
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
    by_pool = np.array([rates for _, n, rates in rows for _ in range(n)])
    rest_s = [_rest_s(job, knowledge.apps.get(job.hint.app, job.user).name, now, run_times) for job in jobs]
    left_s = np.array([fair.deadlines.get(job.id, math.inf) - now for job in jobs])
    prices, gpus_of_kind = _prices(seen, knowledge, pools), np.array(pools.gpus_of_kind)
    division = _division(jobs, by_pool, gpus_of_kind, prices, left_s, fair, now, rest_s)
    names = sorted({entity_of(job) for job in jobs})
    of_account = {entity_of(job): fair.of_account(job) for job in jobs}
    division = replace(division, entity=np.array([names.index(entity_of(job)) for job in jobs]))
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
        gpus[person(job)] += width(job) * of_time
    return DueNow(
        entitlement.name, tuple(pools.kinds), {key: tuple(share[i].tolist()) for key, i in told.items()},
        {key: float(owed.rate[i]) for key, i in told.items()}, fair, owed.note, dict(gpus),
        LEAST * sum(pools.gpus_of_kind) / len(gpus), claims,
    )  # fmt: skip


def _division(
    jobs: list[Job], by_pool: FloatArray, gpus: FloatArray, prices: FloatArray, left_s: FloatArray, fair: FairShares,
    now: float, rest_s: list[float],
) -> Division:  # fmt: skip
    return Division(
        by_pool,
        gpus,
        np.array([float(width(job)) for job in jobs]),
        np.array([fair.of_account(job) * fair.inside(job) for job in jobs]),
        steps=np.array(rest_s),
        age_s=np.array([max(0.0, now - job.submit) for job in jobs]),
        isolated_s=np.array([_ran_s(job, now) for job in jobs]),
        left_s=left_s,
        prices=prices,
        names=tuple(str(job.id) for job in jobs),
    )


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
        has[person(job)] += width(job) * plainly
        would[person(job)] += width(job) * by_claims
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
            yield job, tasks_of(job)


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


def _rest_s(job: Job, app: str, now: float, run_times: RunTimes) -> float:
    """Of work on its best GPUs; who is nearly done counts as a minute."""
    return max(60.0, run_times.of(job, app).rest(_ran_s(job, now)))


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
