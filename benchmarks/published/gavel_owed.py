"""`gavel-owed/OBJECTIVE`: an entitlement says how much of each pool each job is owed; the most owed jobs run.

Shares are made anew when a job came or ended, and what a job was owed and did not get is a debt. Each time, one
assignment of jobs to pools pays as much debt as it can; a running job counts a turn more where it is, so that a job
runs for hours and not for minutes. GPUs that nobody is owed do not stay idle. By Gavel's objectives, without its
rounds; not in pald, which stops no job for another's share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.published.admission import ActiveJob
from benchmarks.published.pool_assignment import NOT_THERE, best
from benchmarks.published.pool_placement import PoolPlacement
from pal_slurm.errors import BadInput
from pal_slurm.model import BoolArray, Cluster, FloatArray, Gpus, IntArray, ScoreTable
from pal_slurm.policy.entitlement.division import Division
from pal_slurm.policy.entitlement.isolated import isolated_share
from pal_slurm.policy.entitlement.objectives import Objective
from pal_slurm.policy.entitlement.water_filling import Entities
from pal_slurm.policy.pools.claims import relative_rates
from pal_slurm.policy.solving import NoAnswer

MIN_TURN_S = 7200.0  # at least, and
TURN_OVER_MOVE_COST = 30.0  # times what a move costs
SHARES_LAST_S = 600.0  # at least
LOOKS_PER_TURN = 8  # a turn: debts grow while nothing happens
MOST_TURNS = 4.0  # times the turn: a longer debt is not remembered, nor a longer favour
SHARE, OWED, ENTITLED, RECEIVED = range(4)
GOOD_MATCH_S = 60.0  # what the best pool counts more than a useless one, where debts are alike


@dataclass(frozen=True, slots=True)
class Terms:
    """What an entitlement is to know beside the jobs."""

    weights: Mapping[str, float]  # of an account, or of a user without one; 1
    prices: Mapping[str, float]  # of a GPU of that model; 1


PLAIN = Terms({}, {})


class ServiceDeficit:
    """A row for each job: its share, its debt, and since it came what it was entitled to and what it had."""

    def __init__(self, pools: int, turn_s: float) -> None:
        self._most_s = MOST_TURNS * turn_s
        self._book = np.zeros((4, 64, pools))
        self._row: dict[int, int] = {}
        self._free: list[int] = list(range(64))
        self._told = 0.0

    def add(self, job: int) -> None:
        if not self._free:
            rows = self._book.shape[1]
            self._book = np.concatenate((self._book, np.zeros_like(self._book)), axis=1)
            self._free = list(range(rows, 2 * rows))
        self._row[job] = row = self._free.pop()
        self._book[:, row] = 0.0

    def remove(self, job: int) -> None:
        row = self._row.pop(job)
        self._book[:, row] = 0.0
        self._free.append(row)

    def set_shares(self, jobs: Sequence[int], shares: FloatArray) -> None:
        self._book[SHARE, self._rows(jobs)] = shares

    def advance(self, now: float, ran: Mapping[int, int]) -> None:
        """Time went by; `ran`: the pool of each that ran meanwhile."""
        gone, self._told = now - self._told, now
        if gone <= 0:
            return
        book, rows, pools = self._book, self._rows(list(ran)), list(ran.values())
        for which in (OWED, ENTITLED):
            book[which] += book[SHARE] * gone
        book[OWED, rows, pools] -= gone
        book[RECEIVED, rows, pools] += gone
        np.clip(book[OWED], -self._most_s, self._most_s, out=book[OWED])

    def deficits(self, jobs: Sequence[int]) -> FloatArray:
        """(jobs, pools) seconds; below 0: it had more than its due."""
        return np.asarray(self._book[OWED, self._rows(jobs)])

    def entitled(self, job: int) -> tuple[FloatArray, FloatArray]:
        """(pools,) seconds since it came: its due, and what it had."""
        row = self._row[job]
        return self._book[ENTITLED, row].copy(), self._book[RECEIVED, row].copy()

    def _rows(self, jobs: Sequence[int]) -> list[int]:
        return [self._row[job] for job in jobs]


class OwedAssignment:
    """Which jobs of one cluster run in which pool, by what they are owed."""

    def __init__(self, objective: Objective, terms: Terms, cluster: Cluster, scores: ScoreTable, cost_s: float) -> None:
        self._objective, self._terms, self._models = objective, terms, cluster.models
        self._turn_s = max(MIN_TURN_S, TURN_OVER_MOVE_COST * cost_s)
        self._pools = PoolPlacement(cluster, scores, cost_s)
        self._gpus = np.array(self._pools.gpus, dtype=float)
        self.deficit = ServiceDeficit(len(cluster.models), self._turn_s)
        self._here: dict[int, ActiveJob] = {}
        self._rates: dict[int, tuple[float, ...]] = {}
        self._changed, self._shared_at = False, -math.inf
        self.wake_at = math.inf
        self.told: Counter[str] = Counter()  # what could not be had, or not in time

    def arrive(self, here: ActiveJob) -> None:
        job = here.job.id
        self._here[job] = here
        rates = relative_rates(here.app, self._models)
        self._rates[job] = tuple(r if size >= here.gpus else 0.0 for r, size in zip(rates, self._gpus, strict=True))
        self.deficit.add(job)
        self._changed = True

    def ended(self, here: ActiveJob) -> None:
        job = here.job.id
        if job in self._pools.pool_of:
            self._pools.remove(job)
        self.deficit.remove(job)
        del self._here[job], self._rates[job]
        self._changed = True

    def learn(self, scores: ScoreTable) -> None:
        self._pools.learn(scores)

    def act(self, now: float) -> Mapping[int, Gpus]:
        self.deficit.advance(now, self._pools.pool_of)
        if self._changed and now >= self._shared_at + SHARES_LAST_S and self._here:
            self._share(now)
        then = self._assigned(now)
        for job, pool in list(self._pools.pool_of.items()):
            if job not in then or then[job][1] != pool:
                self._pools.remove(job)
        crowded = len(then) < len(self._here)
        self.wake_at = now + self._turn_s / LOOKS_PER_TURN if crowded else math.inf
        if self._changed and self._here:
            self.wake_at = min(self.wake_at, self._shared_at + SHARES_LAST_S)
        return self._pools.put(then, now)

    def _share(self, now: float) -> None:
        """Where nobody answers in time the last shares stand; who came since has none yet."""
        self._changed, self._shared_at = False, now
        jobs = list(self._here)
        try:
            shares = self._objective(*self._asked(jobs, now))
        except NoAnswer as none:
            self.told[f"No shares were found ({none.why.name.lower()}): the last ones stand."] += 1
            return
        except BadInput as bad:
            self.told[str(bad)] += 1
            return
        if shares.note:
            self.told[shares.note.partition(":")[0]] += 1
        self.deficit.set_shares(jobs, shares.share)

    def _asked(self, jobs: Sequence[int], now: float) -> tuple[Division, Entities]:
        here = [self._here[job] for job in jobs]
        progress = [one.progress(now) for one in here]
        owners = [one.job.account or one.job.user for one in here]
        names = sorted(set(owners))
        weight = self._terms.weights.get
        bases = [_rate(one, self._models) for one in here]
        left = np.array([one.job.submit + one.limit_s - now for one in here])
        division = Division(
            np.array(bases) * (np.array([self._rates[job] for job in jobs]) > 0),
            self._gpus,
            np.array([float(one.gpus) for one in here]),
            np.array([weight(owner, 1.0) for owner in owners]),
            steps=np.array([max(p.rest_steps, 0.0) for p in progress]),
            age_s=np.array([max(now - one.job.submit, 0.0) for one in here]),
            left_s=left,
            prices=np.array([self._terms.prices.get(model, 1.0) for model in self._models]),
            entity=np.array([names.index(owner) for owner in owners]),
            names=tuple(str(job) for job in jobs),
        )
        best_rate = division.rates.max(axis=1)
        slow = (isolated_share(division) * division.rates).sum(axis=1)
        done = np.array([p.done_s for p in progress])  # as if it had been so all the time
        so_far = done * best_rate / np.where(slow > 0, slow, 1.0)
        return replace(division, isolated_s=so_far), Entities(np.array([weight(name, 1.0) for name in names]))

    def _assigned(self, now: float) -> dict[int, tuple[ActiveJob, int]]:
        jobs = list(self._here)
        if not jobs:
            return {}
        rates = np.array([self._rates[job] for job in jobs])
        worth: FloatArray = self.deficit.deficits(jobs) + GOOD_MATCH_S * rates
        worth += (MOST_TURNS + 1) * self._turn_s  # whoever runs is better than nobody
        stays = np.array([self._pools.pool_of.get(job, -1) for job in jobs])
        runs = np.flatnonzero(stays >= 0)
        worth[runs, stays[runs]] += self._turn_s
        fixed = np.array([pool >= 0 and not self._here[job].movable for job, pool in zip(jobs, stays, strict=True)])
        worth = worth / self._turn_s
        sizes = np.array([self._here[job].gpus for job in jobs])
        answer = best(_possible(worth, rates, fixed, stays), sizes, self._pools.gpus, stays)
        if not answer.proven:
            self.told["An assignment was not proven the best in its time: the best found was taken."] += 1
        found = zip(jobs, answer.pools, strict=True)
        return {job: (self._here[job], int(pool)) for job, pool in found if pool >= 0}


def _possible(worth: FloatArray, rates: FloatArray, fixed: BoolArray, stays: IntArray) -> FloatArray:
    """Where a job can't run, and where one that may not be moved would have to go, is no place."""
    out = np.where(rates > 0, worth, NOT_THERE)
    held = np.flatnonzero(fixed)
    out[held] = NOT_THERE
    out[held, stays[held]] = worth[held, stays[held]] + 100 * MOST_TURNS
    return np.asarray(out)


def _rate(here: ActiveJob, models: Sequence[str]) -> list[float]:
    """Steps a second on the median GPU of each model."""
    told = relative_rates(here.app, models)
    base = min(here.app.base.values(), default=1.0)
    return [rate / base for rate in told]
