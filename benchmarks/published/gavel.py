"""Gavel's published loop (OSDI'20), bug for bug. In: arrivals and ends. Out: in each round, who runs on which GPUs.

A round is 360 s; GPUs of a job that ends in it are idle until the next. Shares are made anew when a job came or ended
and the last are over 1920 s old. Per GPU type, in the order v100, p100, k80 (drawn anew each round for the policy that
knows no rates), jobs run by (share over the part of the type's time that they had, deficit, share). Jobs without a
share fill what is left. A job that came after the last shares counts as running, and its GPUs stay idle.

Which GPUs of a type: large jobs first. Of one size those come first whose last GPUs are all still there; the others
take the next ones from a pointer that never goes back, so a large newcomer may take what a small job held.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from pal_slurm.model import App, Cluster, Gpus, ScoreTable
from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.entitlement.level import CommonLevel
from pal_slurm.policy.entitlement.max_min import merge, needs
from pal_slurm.sim.engine import NEVER, Run, Stage

Who = TypeVar("Who", bound=Hashable)  # a job, or two
Wanted = tuple[Who, int, Gpus]  # how many, and those of the last round


class Workers:
    """The GPUs of one type."""

    def __init__(self, cluster: Cluster, model: int) -> None:
        mine = cluster.gpu_exists & (cluster.gpu_model == model)
        self._all: list[int] = np.flatnonzero(mine.ravel()).tolist()
        self.count = len(self._all)

    def given(self, jobs: Sequence[Wanted[Who]]) -> dict[Who, Gpus]:
        given: dict[Who, Gpus] = {}
        taken: set[int] = set()
        next_ = iter(self._all)
        for size in sorted({n for _, n, _ in jobs}, reverse=True):
            same = [(job, last) for job, n, last in jobs if n == size]
            for job, last in same:
                if last and not taken.intersection(last):
                    given[job] = last
                    taken.update(last)
            for job, _ in same:
                if job not in given:
                    found: list[int] = []
                    while len(found) < size:
                        gpu = next(next_)
                        if gpu not in taken:
                            found.append(gpu)
                    taken.update(found)
                    given[job] = tuple(found)
        return given


ROUND_S = 360.0  # unless told otherwise
SHARES_LAST_S = 1920.0
ORDER = ("v100", "p100", "k80")  # other models follow as they are told
SLACK_S = 1e-6


class GavelPace(NamedTuple):
    round_s: float = ROUND_S
    shares_last_s: float = SHARES_LAST_S  # 0: made anew at each change


AS_PUBLISHED = GavelPace()


class GavelRounds(ABC):
    """What the two published loops have in common: rounds, and when shares are made anew."""

    restless = False

    def __init__(self, name: str, cluster: Cluster, pace: GavelPace) -> None:
        self.name, self.wake_at, self._round_s = name, NEVER, pace.round_s
        self._shares_last_s = pace.shares_last_s
        self._types = sorted(range(len(cluster.models)), key=lambda t: _place(cluster.models[t]))
        self._workers = [Workers(cluster, t) for t in range(len(cluster.models))]
        self._gpus = np.array([float(workers.count) for workers in self._workers])
        self._changed, self._shared_at, self._round_end = False, 0.0, 0.0

    def learn(self, known: ScoreTable) -> None:  # noqa: B027  # none of them needs another
        """The artifact knows nothing of single GPUs."""

    def act(self, stage: Stage) -> None:
        now = stage.now
        if now < self._round_end - SLACK_S:
            return
        self._account(now)
        if self._changed and (now - self._shared_at >= self._shares_last_s or self._shared_at == 0):
            self._share(now)
        running = self._begin_round(stage)
        self._round_end = now + self._round_s if running else now
        self.wake_at = self._round_end if running else NEVER

    @abstractmethod
    def _account(self, now: float) -> None:
        """What each had of each type in the round that ends."""

    @abstractmethod
    def _share(self, now: float) -> None:
        """Shares anew."""

    @abstractmethod
    def _begin_round(self, stage: Stage) -> bool:
        """Whether anybody runs in it."""


def _place(model: str) -> int:
    return ORDER.index(model) if model in ORDER else len(ORDER)


NEVER_RAN = 1e9  # times its share: who had nothing of a type comes before all that had something
SHUFFLE_SEED = 5  # added to the run's seed, as published


@dataclass(slots=True)
class _Entry:
    """One job, and what it had of each type since the last shares."""

    run: Run
    rates: list[float]  # steps/s by type; 0: not there
    time: list[float]
    deficit: list[float]
    share: list[float] | None = None  # None: it came after they were made
    workers: tuple[int, ...] = ()
    type: int = -1  # of this round
    since: float = field(default=0.0)


class GavelLoop(GavelRounds):
    """`artifact/gavel-las`, and without rates `artifact/gavel-las-agnostic`."""

    def __init__(
        self, name: str, cluster: Cluster, seed: int, *, agnostic: bool, pace: GavelPace = AS_PUBLISHED
    ) -> None:
        super().__init__(name, cluster, pace)
        self._agnostic = agnostic
        self._models = cluster.models
        self._spent = [0.0] * len(self._types)  # of each type, by jobs, since the last shares
        self._shuffle = random.Random(seed + SHUFFLE_SEED)
        self._jobs: dict[int, _Entry] = {}

    def arrive(self, run: Run) -> None:
        rates = [rate(run.work.app, model) for model in self._models]
        self._jobs[run.work.id] = _Entry(run, rates, [self._round_s / 2] * len(rates), [0.0] * len(rates))
        self._changed = True

    def ended(self, run: Run, gpus: Gpus) -> None:
        entry = self._jobs.pop(run.work.id)
        self._spent[entry.type] += run.end - entry.since
        self._changed = True

    def _account(self, now: float) -> None:
        for entry in self._jobs.values():
            if entry.type >= 0:
                entry.time[entry.type] += now - entry.since
                self._spent[entry.type] += now - entry.since

    def _share(self, now: float) -> None:
        elapsed = now - self._shared_at
        for entry in self._jobs.values():
            for t, time in enumerate(entry.time):
                owed = 0.0 if entry.share is None else entry.share[t] * elapsed
                entry.deficit[t] += owed - (time - self._round_s / 2)
            entry.time = [self._round_s / 2] * len(entry.time)
        self._spent = [len(self._jobs) * self._round_s / 2] * len(self._spent)
        self._shared_at, self._changed = now, False
        if not self._jobs:
            return
        entries = list(self._jobs.values())
        sizes = np.array([float(entry.run.work.gpus) for entry in entries])
        asked = Division(np.array([entry.rates for entry in entries]), self._gpus, sizes)
        shares = central(asked.alike() if self._agnostic else asked).share
        for entry, share in zip(entries, shares, strict=True):
            entry.share = share.tolist()

    def _begin_round(self, stage: Stage) -> bool:
        self._run(stage, self._chosen())
        return any(entry.type >= 0 for entry in self._jobs.values())

    def _chosen(self) -> dict[int, int]:
        """Job to type."""
        types = list(self._types)
        if self._agnostic:
            self._shuffle.shuffle(types)
        left = self._gpus.tolist()
        chosen: dict[int, int] = {}
        for t in types:
            ranks = {job: _rank(entry, t, self._spent[t]) for job, entry in self._jobs.items() if job not in chosen}
            for job in sorted(ranks, key=ranks.__getitem__, reverse=True):
                if not left[t]:
                    break
                entry = self._jobs[job]
                size = entry.run.work.gpus
                if entry.rates[t] > 0 and size <= left[t]:
                    left[t] -= size
                    chosen[job] = t
        return chosen

    def _run(self, stage: Stage, chosen: Mapping[int, int]) -> None:
        now = stage.now
        # stopping first: somebody else may have its GPUs
        new: dict[int, tuple[int, Gpus]] = {}
        for t, workers in enumerate(self._workers):
            wanted = [
                (job, entry.run.work.gpus, entry.workers if entry.type == t else ())
                for job, entry in self._jobs.items()
                if chosen.get(job) == t and entry.share is not None
            ]
            new |= {job: (t, gpus) for job, gpus in workers.given(wanted).items()}
        for job, entry in self._jobs.items():
            if entry.run.gpus and (job not in new or new[job][1] != entry.run.gpus):
                if job not in new:
                    stage.stop(entry.run)
                entry.type, entry.workers = -1, ()
        for job, (t, gpus) in new.items():
            entry = self._jobs[job]
            stage.start(entry.run, gpus)
            entry.type, entry.workers, entry.since = t, gpus, now


def _rank(entry: _Entry, t: int, spent: float) -> tuple[float, float, float]:
    """`spent`: the type's time, by all jobs."""
    if entry.share is None:
        return (0.0, entry.deficit[t], 0.0)
    share = entry.share[t]
    if share == 0 or entry.rates[t] == 0:
        return (0.0, entry.deficit[t], share)
    part = entry.time[t] / spent if spent else 0.0
    return (share / part if part else share * NEVER_RAN, entry.deficit[t], share)


def rate(app: App, model: str) -> float:
    """Steps a second alone; 0: it can't run there."""
    return 1.0 / app.base[model] if app.base.get(model) else 0.0


def central(division: Division) -> Shares:
    """Max-min shares; of all optima one far from every bound, as Gavel's interior point method leaves it."""
    merged = merge(division)
    level = CommonLevel(division, merged, interior=True)
    answer = level.solve(needs(division)[merged.first])
    return level.shares(answer, answer.value)
