"""The event loop. In: a workload, the true scores and a scheduler. Out: a TraceOutcome.

Time jumps from event to event: an arrival, an end, a change of the scores. With rounds, events take effect at the next
multiple of the round, and rounds in which nothing can change are skipped. There is no wall clock and no global RNG.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from pal_slurm.errors import PalError
from pal_slurm.model import NOBODY_SHARES, Cluster, Gpus, ScoreTable, Sharing, Speeds, shared_comm, step_time
from pal_slurm.sim.network import Network
from pal_slurm.sim.outcome import Timeline, TraceOutcome
from pal_slurm.sim.running import NEVER as NEVER
from pal_slurm.sim.running import Run as Run
from pal_slurm.sim.together import SharedGpus
from pal_slurm.sim.workload import Work, Workload

MOST_TURNS = 12  # of the trace, and nobody comes any more: who would starve for ever ends then
SLACK = 1e-9  # of a round: what floating point may add to a job that ends exactly with the round


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """How the simulated cluster treats jobs."""

    round_s: float = 0.0  # 0: act at once
    restart_cost_s: float = 0.0  # a moved or restarted job does nothing for so long
    first_start_cost: bool = False  # the same at the first start
    launch_s: float = 0.0  # every start: the job holds its GPUs for so long and does nothing
    checkpoint_s: float = 0.0  # a stopped job loses what it did since the last multiple; 0: loses nothing
    uplinks: tuple[float, ...] = ()  # jobs that a rack's uplink, a group's ... serves at full speed; none: any number


@dataclass(frozen=True, slots=True)
class Change:
    """From `at` on, GPUs really are so fast, and the scheduler believes `known` (None: as before)."""

    at: float
    truth: ScoreTable | None = None
    known: ScoreTable | None = None


class Stage(Protocol):
    """What a scheduler may do to the cluster at one moment."""

    now: float

    def start(self, run: Run, gpus: Gpus) -> None: ...
    def stop(self, run: Run) -> None: ...


class Scheduler(Protocol):
    """Told of every arrival, end and change; asked once per moment to act."""

    name: str

    @property
    def restless(self) -> bool:
        """Wants to be asked in every round, also when nothing happened."""

    @property
    def wake_at(self) -> float:
        """When it wants to be asked next, whatever happens; NEVER for at the next event."""

    def arrive(self, run: Run) -> None: ...
    def ended(self, run: Run, gpus: Gpus) -> None: ...
    def learn(self, known: ScoreTable) -> None: ...
    def act(self, stage: Stage) -> None: ...


class Engine:
    """Runs one scheduler on one workload."""

    def __init__(
        self,
        cluster: Cluster,
        truth: ScoreTable,
        load: Workload,
        scheduler: Scheduler,
        rules: ClusterRules | None = None,
        changes: Sequence[Change] = (),
        sharing: Sharing = NOBODY_SHARES,
    ) -> None:
        """`sharing`: what it really costs jobs to have the same GPUs."""
        self.now = 0.0
        self._cluster = cluster
        self._truth = Speeds(cluster, truth)
        self._load = load.fitting(cluster.n_gpus)
        self._works, self._turn = list(self._load.works), 0
        self._scheduler = scheduler
        self._rules = rules or ClusterRules()
        self._changes = sorted(changes, key=lambda change: change.at)
        self._next_change = 0
        self._next_arrival = 0
        self._network = Network(cluster, self._rules.uplinks) if self._rules.uplinks else None
        self._together = SharedGpus(cluster, sharing)
        self._ends: list[tuple[float, int]] = []
        self._runs: list[Run] = []
        self._by_job: dict[int, Run] = {}
        self._left = set(load.tracked)
        self._waiting = 0
        self._gpu_seconds = self._shared_seconds = 0.0
        self._moves = 0
        self._restarts = 0
        self._timeline = Timeline()

    def run(self, progress: OnProgress | None = None) -> TraceOutcome:
        began = time.process_time()
        scheduler = self._scheduler
        total = len(self._left)
        while self._left:
            self._advance(self._next_event())
            self._finish_due()
            if progress is not None:
                progress(total - len(self._left), total)
            if not self._left:
                break
            self._admit()
            self._apply_changes()
            scheduler.act(self)
            self._note()
        self._note()
        return self._outcome(time.process_time() - began)

    # what schedulers may do

    def start(self, run: Run, gpus: Gpus) -> None:
        """Start a waiting job on these GPUs, or move a running one to them."""
        if run.gpus == gpus:
            return
        if run.gpus:
            self._moves += 1
            self._bank(run)
        else:
            self._waiting -= 1
            if run.first_start < NEVER:
                self._restarts += 1
        again = run.first_start < NEVER
        if not again:
            run.first_start = self.now
        run.gpus = gpus
        run.started = self.now
        run.starts += 1
        costs = again or self._rules.first_start_cost
        run.since = self.now + self._rules.launch_s + (self._rules.restart_cost_s if costs else 0.0)
        if self._network is not None:
            self._settle(self._by_job[job] for job in self._network.joins(run.work.id, gpus))
        self._settle(self._together.joins(run))
        self._retime(run)

    def stop(self, run: Run) -> None:
        self._bank(run)
        run.end = NEVER
        self._waiting += 1

    # the loop's parts

    def _next_event(self) -> float:
        soonest = NEVER
        if (coming := self._coming()) is not None:
            soonest = self._to_round(coming.submit)
        if self._next_change < len(self._changes):
            soonest = min(soonest, self._to_round(self._changes[self._next_change].at))
        ends, runs = self._ends, self._runs
        while ends and runs[ends[0][1]].end != ends[0][0]:
            heappop(ends)  # it was moved or stopped meanwhile
        if ends and ends[0][0] < soonest:
            soonest = ends[0][0]
        if self._scheduler.restless and self._rules.round_s and (self._together.gpus or self._waiting):
            soonest = min(soonest, self.now + self._rules.round_s)
        soonest = min(soonest, self._to_round(self._scheduler.wake_at))
        if soonest == NEVER:
            raise PalError(f"{self._scheduler.name} leaves {len(self._left)} jobs waiting on an idle cluster.")
        return max(soonest, self.now)

    def _coming(self) -> Work | None:
        """The next job that is to be submitted."""
        if self._next_arrival == len(self._works) and self._load.beyond is not None and self._turn < MOST_TURNS:
            self._turn += 1
            self._works.extend(self._load.beyond(self._turn))
        return self._works[self._next_arrival] if self._next_arrival < len(self._works) else None

    def _to_round(self, at: float) -> float:
        length = self._rules.round_s
        return at if not length or at == NEVER else math.ceil(at / length - SLACK) * length

    def _advance(self, to: float) -> None:
        self._gpu_seconds += self._together.gpus * (to - self.now)
        self._shared_seconds += self._together.shared * (to - self.now)
        self.now = to

    def _finish_due(self) -> None:
        while self._ends and self._ends[0][0] <= self.now:
            end, index = heappop(self._ends)
            run = self._runs[index]
            if run.end != end or not run.gpus:
                continue
            run.account(self.now)
            self._settle(self._together.leaves(run))
            gpus, run.gpus = run.gpus, ()
            run.steps = 0.0
            self._left.discard(index)
            if self._network is not None:
                self._settle(self._by_job[job] for job in self._network.leaves(run.work.id))
            self._scheduler.ended(run, gpus)

    def _admit(self) -> None:
        while (work := self._coming()) is not None and work.submit <= self.now:
            run = Run(work, work.as_job(), self._next_arrival, work.steps)
            self._runs.append(run)
            self._by_job[work.id] = run
            self._waiting += 1
            self._scheduler.arrive(run)
            self._next_arrival += 1

    def _apply_changes(self) -> None:
        while self._next_change < len(self._changes) and self._changes[self._next_change].at <= self.now:
            change = self._changes[self._next_change]
            self._next_change += 1
            if change.truth is not None:
                self._truth = Speeds(self._cluster, change.truth)
                self._settle(run for run in self._runs if run.gpus)
            if change.known is not None:
                self._scheduler.learn(change.known)

    def _settle(self, runs: Iterable[Run]) -> None:
        """From now on they are faster or slower."""
        for run in runs:
            run.account(self.now)
            run.steps = run.steps_left(self.now)
            run.since = max(run.since, self.now)
            self._retime(run)

    def _retime(self, run: Run) -> None:
        base, worst, comm, _ = self._truth.factors(run.work.app, run.gpus)
        run.comm = comm if self._network is None else shared_comm(comm, self._network.rate(run.work.id))
        run.step = step_time(base, worst, run.comm, self._together.factor(run))
        run.end = self._to_round(run.since + run.steps * run.step)
        heappush(self._ends, (run.end, run.index))

    def _bank(self, run: Run) -> None:
        """Take a running job's GPUs away; it keeps what it did up to its last checkpoint."""
        at = self.now
        run.account(at)
        if self._rules.checkpoint_s and at > run.since:
            at -= (at - run.since) % self._rules.checkpoint_s
        run.steps = run.steps_left(at)
        run.attained = run.attained_at(self.now)
        self._settle(self._together.leaves(run))
        run.gpus = ()
        if self._network is not None:
            self._settle(self._by_job[job] for job in self._network.leaves(run.work.id))

    def _note(self) -> None:
        line = self._timeline
        line.time.append(self.now)
        line.queued.append(self._waiting)
        line.busy.append(self._together.gpus)

    def _outcome(self, cpu_s: float) -> TraceOutcome:
        runs = [self._runs[i] for i in self._load.tracked]
        return TraceOutcome(
            policy=self._scheduler.name,
            job_ids=np.array([run.work.id for run in runs], dtype=np.int64),
            submit_s=np.array([run.work.submit for run in runs]),
            start_s=np.array([run.first_start for run in runs]),
            end_s=np.array([run.end for run in runs]),
            ideal_s=np.array([run.work.ideal_s() for run in runs]),
            gpus=np.array([run.work.gpus for run in runs], dtype=np.int64),
            gpu_seconds=self._gpu_seconds,
            shared_gpu_seconds=self._shared_seconds,
            n_gpus=self._cluster.n_gpus,
            moves=self._moves,
            restarts=self._restarts,
            comm_s=sum(run.talked for run in runs) / len(runs),
            starts_per_job=sum(run.starts for run in runs) / len(runs),
            cpu_s=cpu_s,
            timeline=self._timeline,
        )


class OnProgress(Protocol):
    def __call__(self, done: int, total: int) -> None: ...
