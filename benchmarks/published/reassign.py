"""`reassign`: running jobs may move to any GPUs at a price. In: jobs that run or shall run. Out: GPU sets by job.

PAL places jobs one after the other and moves them for nothing. Here a plan has a price: the seconds that every job
would spend where the plan puts it, as far ahead as the plan can be believed, plus the seconds that its moves cost.
Newcomers are placed first. Then the jobs that would gain most elsewhere are tried there: the jobs in their way are
taken out and placed again, and the new plan is kept when its price is lower. So a good GPU goes to the job that it
serves best across the queue, free GPUs scattered over nodes are joined when that pays, and nothing moves for less
than a move costs. Order and fill say which jobs run. Ours, and not in pald: Slurm can't be asked for any set of GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.published.admission import ActiveJob, Admission
from pal_slurm.model import App, Cluster, FloatArray, Gpus, ScoreTable, Speeds, base_of

TRIES = 4  # jobs per plan that are tried elsewhere
TIE = 1e-6  # what a tie-break may add to a score: far below any difference that could be measured
# A plan is believed until the first of its jobs ends, but at least so long: then it is made anew.
BELIEVED_S = 1800.0
# The first in the order counts for so much more than the last: of two equal jobs the elder gets the better GPUs.
SENIORITY = 0.3


@dataclass(frozen=True, slots=True)
class Claim:
    """One job that is to hold GPUs now."""

    job: int
    gpus: int
    app: App
    steps: float  # still to do
    held: Gpus = ()  # where it runs; () for a newcomer
    movable: bool = True  # False: where it runs it stays


class Assigner:
    """Plans for one cluster and what is known of it."""

    def __init__(self, cluster: Cluster, scores: ScoreTable, move_cost_s: float) -> None:
        self.exists: NDArray[np.bool_] = cluster.gpu_exists.ravel()
        self.move_cost_s = move_cost_s
        self._width = cluster.width
        self._nodes = cluster.n_nodes
        self._models = cluster.models
        self._model_of = cluster.gpu_model.ravel()
        self.speeds = Speeds(cluster, scores, as_bins=True)
        known = [self.speeds.values(cls) for cls in scores.classes]
        self._spread = {cls: float(np.ptp(row[self.exists])) for cls, row in zip(scores.classes, known, strict=True)}
        self._most = scores.classes[0]  # an unknown class is taken for the most sensitive one
        worth = sum((row.max() - row for row in known), np.zeros(self.exists.size))
        self._tie = TIE * worth / max(float(worth.max()), TIE)
        self._node_of = np.arange(self.exists.size) // self._width
        self._ideal: dict[tuple[int, int], tuple[App, float]] = {}  # by app and size: the best on an empty cluster
        self._steps: dict[int, tuple[Gpus, float]] = {}  # by job: what it held last, and how fast that is

    def plan(self, claims: Sequence[Claim], waiting: int = 0) -> dict[int, Gpus]:
        """GPUs for every claim, which come in the order; together they must fit. `waiting`: jobs that get none now."""
        if not claims:
            return {}
        state = _State(self, claims, waiting)
        for claim in sorted((c for c in claims if not c.held), key=lambda c: state.urgency[c.job]):
            state.put(claim)
        for claim in state.unhappy()[:TRIES]:
            self._try(state, claim)
        self._steps = {job: self._steps[job] for job in state.where if job in self._steps}
        return state.where

    def stakes(self, claims: Sequence[Claim], waiting: int) -> dict[int, float]:
        """Per job: the steps that it would do before the plan is made anew, weighted by its place in the order.

        A second that a job ends sooner is a second for itself, and its share of the cluster's GPUs of a second for each
        job that waits; with a logarithm, because the more wait, the fewer of them wait for this end.
        """
        each = waiting / np.count_nonzero(self.exists)
        bases = [self._base(claim.app) for claim in claims]
        horizon = max(BELIEVED_S, min(c.steps * base for c, base in zip(claims, bases, strict=True)))
        return {
            claim.job: min(claim.steps, horizon / base)
            * (1.0 + SENIORITY * (1.0 - i / len(claims)))
            * (1.0 + math.log1p(each * claim.gpus))
            for i, (claim, base) in enumerate(zip(claims, bases, strict=True))
        }

    def urgency(self, claim: Claim, stake: float) -> tuple[float, int]:
        """Who chooses first: whose work feels a bad GPU most."""
        return (-stake * self._base(claim.app) * self._spread.get(claim.app.cls, self._spread[self._most]), claim.job)

    def step_of(self, claim: Claim, gpus: Gpus) -> float:
        """Seconds per step there, by the one equation."""
        last = self._steps.get(claim.job)
        if last is None or last[0] != gpus:
            last = self._steps[claim.job] = (gpus, self.speeds.step(claim.app, gpus))
        return last[1]

    def ideal(self, claim: Claim) -> float:
        """Seconds per step on the best GPUs of an empty cluster."""
        key = (id(claim.app), claim.gpus)
        if key not in self._ideal:  # the app is kept with it, so that its id stays its own
            self._ideal[key] = (claim.app, self.speeds.step(claim.app, self.best(claim, self.exists)))
        return self._ideal[key][1]

    def best(self, claim: Claim, free: NDArray[np.bool_]) -> Gpus:
        """The free GPUs on which this job alone would be fastest; ties leave what others value and whole nodes."""
        n, width = claim.gpus, self._width
        left = free.reshape(self._nodes, width).sum(axis=1)
        key = self.speeds.values(claim.app.cls) + self._tie + (TIE / width) * left[self._node_of]
        if len(self._models) > 1:
            key = key * np.array([base_of(claim.app, model) for model in self._models])[self._model_of]
        key[~free] = np.inf
        if n == 1:
            return (int(key.argmin()),)
        wide = self._lowest(key, n)
        if n > width:
            return wide
        by_node = np.partition(key.reshape(self._nodes, width), n - 1, axis=1)[:, n - 1]
        node = int(by_node.argmin())
        if by_node[node] == np.inf:
            return wide
        at = key[node * width : (node + 1) * width]
        narrow = tuple(sorted((np.argsort(at, kind="stable")[:n] + node * width).tolist()))
        return narrow if self.speeds.step(claim.app, narrow) <= self.speeds.step(claim.app, wide) else wide

    def _lowest(self, key: FloatArray, n: int) -> Gpus:
        """n GPUs no worse than the n-th best, from the nodes that have most of them."""
        fit = np.flatnonzero(key <= np.partition(key, n - 1)[n - 1])
        per_node = np.bincount(self._node_of[fit], minlength=self._nodes)
        order = np.argsort(-per_node[self._node_of[fit]], kind="stable")
        return tuple(sorted(fit[order[:n]].tolist()))

    def _base(self, app: App) -> float:
        return base_of(app, self._models[0])

    def _try(self, state: _State, claim: Claim) -> None:
        """Put one job where it is best, and those in its way anew; keep the cheapest of a few such plans."""
        for open_ in state.openings(claim):
            wanted = self.best(claim, open_)
            if wanted == state.where[claim.job]:
                continue
            trial = state.copy()
            others = sorted({int(job) for job in state.owner[list(wanted)]} - {-1, claim.job})
            for job in (claim.job, *others):
                trial.remove(job)
            trial.take(claim, wanted)
            for job in sorted(others, key=state.urgency.__getitem__):
                trial.put(state.claims[job])
            moved = (claim.job, *others)
            if trial.price(moved) < state.price(moved) - 1e-9:
                state.become(trial)


class _State:
    """One plan in the making."""

    def __init__(self, assigner: Assigner, claims: Sequence[Claim], waiting: int) -> None:
        self._assigner = assigner
        self.claims = {claim.job: claim for claim in claims}
        self._stakes = assigner.stakes(claims, waiting)
        self.urgency = {claim.job: assigner.urgency(claim, self._stakes[claim.job]) for claim in claims}
        self._rank = {job: i for i, job in enumerate(sorted(self.claims, key=self.urgency.__getitem__))}
        stay = [gpu for claim in claims if claim.held and not claim.movable for gpu in claim.held]
        self._open = assigner.exists
        if stay:
            self._open = assigner.exists.copy()
            self._open[stay] = False  # nobody else comes there, and who is there is not asked
        self._free = assigner.exists.copy()
        self.owner = np.full(self._free.size, -1, dtype=np.int64)
        self._owner_rank = np.full(self._free.size, len(claims), dtype=np.int64)  # free GPUs: behind everybody
        self.where = {claim.job: claim.held for claim in claims if claim.held}
        if self.where:
            at = np.concatenate([np.array(gpus) for gpus in self.where.values()])
            jobs = np.repeat(list(self.where), list(map(len, self.where.values())))
            ranks = np.repeat([self._rank[job] for job in self.where], list(map(len, self.where.values())))
            self._free[at], self.owner[at], self._owner_rank[at] = False, jobs, ranks

    def copy(self) -> _State:
        twin = object.__new__(_State)
        twin.__dict__.update(self.__dict__)
        twin.where, twin._free, twin.owner = dict(self.where), self._free.copy(), self.owner.copy()
        twin._owner_rank = self._owner_rank.copy()
        return twin

    def become(self, other: _State) -> None:
        self.__dict__.update(other.__dict__)

    def take(self, claim: Claim, gpus: Gpus) -> None:
        at = list(gpus)
        self.where[claim.job] = gpus
        self._free[at] = False
        self.owner[at] = claim.job
        self._owner_rank[at] = self._rank[claim.job]

    def remove(self, job: int) -> None:
        at = list(self.where.pop(job))
        self._free[at] = True
        self.owner[at] = -1
        self._owner_rank[at] = len(self.claims)

    def put(self, claim: Claim) -> None:
        """Where it is cheapest now: where it was, if that is open and moving would not pay."""
        found = self._assigner.best(claim, self._free)
        if claim.held and found != claim.held and self._free[list(claim.held)].all():
            found = min((claim.held, found), key=lambda gpus: self._price(claim, gpus))
        self.take(claim, found)

    def price(self, jobs: Iterable[int]) -> float:
        return sum(self._price(self.claims[job], self.where[job]) for job in jobs)

    def _price(self, claim: Claim, gpus: Gpus) -> float:
        moved = self._assigner.move_cost_s if claim.held and claim.held != gpus else 0.0
        return self._stakes[claim.job] * self._assigner.step_of(claim, gpus) + moved

    def unhappy(self) -> list[Claim]:
        """The jobs that would gain most on an empty cluster, if it is more than a move costs."""
        gains = []
        for job, claim in self.claims.items():
            slower = self._assigner.step_of(claim, self.where[job]) - self._assigner.ideal(claim)
            gain = self._stakes[job] * slower
            if gain > (self._assigner.move_cost_s if claim.held else 1e-9) and (claim.movable or not claim.held):
                gains.append((-gain, job))
        return [self.claims[job] for _, job in sorted(gains)]

    def openings(self, claim: Claim) -> Iterator[NDArray[np.bool_]]:
        """What a job may look at: what is free; what others feel less; everything."""
        mine = np.zeros(self._free.size, dtype=np.bool_)
        mine[list(self.where[claim.job])] = True
        yield self._free | mine
        mine[list(self.where[claim.job])] = True
        yield mine | (self._owner_rank > self._rank[claim.job]) & self._open
        yield self._open


class ReassignGpus:
    """Jobs of one cluster, and the last plan."""

    wake_at = math.inf

    def __init__(self, who: Admission, cluster: Cluster, scores: ScoreTable, cost_s: float) -> None:
        self._who, self._cluster, self._cost_s = who, cluster, cost_s
        self._assigner = Assigner(cluster, scores, cost_s)
        self._many = 0  # jobs that run or wait
        self._settled: dict[int, Gpus] | None = {}  # where the last plan put whom; None: it holds no longer

    def arrive(self, here: ActiveJob) -> None:
        self._many += 1
        self._who.arrive(here)

    def ended(self, here: ActiveJob) -> None:
        self._many -= 1
        self._who.ended(here)

    def learn(self, scores: ScoreTable) -> None:
        self._assigner = Assigner(self._cluster, scores, self._cost_s)
        self._settled = None

    def act(self, now: float) -> dict[int, Gpus] | None:
        chosen = self._who.choose(now)
        if {here.job.id: here.held for here in chosen} == self._settled:
            return None
        claims = [
            Claim(here.job.id, here.gpus, here.app, here.progress(now).rest_steps, here.held, here.movable)
            for here in chosen
        ]
        where = self._assigner.plan(claims, self._many - len(chosen))
        self._settled = {here.job.id: where[here.job.id] for here in chosen}
        return where
