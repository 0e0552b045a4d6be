"""Gavel's published loop in rounds, bug for bug, as a scheduler of the engine. In: arrivals and ends. Out: rounds.

When rounds and shares are made: gavel_rounds.py. Per type, in the order v100, p100, k80 (drawn anew each round for the
policy that knows no rates), jobs run by (share over the part of the type's time that they had, deficit, share). Who has
no share fills what is left; who came after the last shares is counted as running, and its GPUs stay idle.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pal_slurm.model import Cluster, Gpus
from pal_slurm.policy.entitlement.division import Division
from pal_slurm.policy.entitlement.max_min import central
from pal_slurm.sim.artifact.gavel_rounds import AS_PUBLISHED, GavelPace, GavelRounds
from pal_slurm.sim.artifact.units import rate
from pal_slurm.sim.engine import Run, Stage

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


class InGavelRounds(GavelRounds):
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
