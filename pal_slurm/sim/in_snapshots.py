"""pald's plan, made of one look at the queue, as a scheduler of the engine. In: arrivals, ends. Out: starts, moves.

in_planner.py tells a planner of each event, which takes less time. This one shows it the whole queue each time, as pald
does in each cycle: for policies that say what each job is owed, and where two jobs may have one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pal_slurm.errors import BadInput
from pal_slurm.model import (
    NOBODY_SHARES,
    App,
    Apps,
    Cluster,
    FairShares,
    Gpus,
    Job,
    JobRef,
    JobState,
    Knowledge,
    Lease,
    Placement,
    PoolRules,
    Request,
    RunTimes,
    ScoreTable,
    Sharing,
    Snapshot,
    WideJobs,
    flat,
)
from pal_slurm.policy import Circumstances, Composition, Planner
from pal_slurm.policy.easy import limit
from pal_slurm.policy.entitlement.debts import Debts
from pal_slurm.policy.entitlement.due_now import due_now
from pal_slurm.policy.entitlement.precedence import DueNow
from pal_slurm.policy.memory import NO_MEMORY
from pal_slurm.policy.seams import Entitlement
from pal_slurm.policy.solving import NoAnswer
from pal_slurm.sim.engine import NEVER, Run, Stage
from pal_slurm.sim.in_planner import run_time_of
from pal_slurm.sim.looks import Looks

PARTS = 2  # jobs that may have one GPU


class InSnapshots:
    """What pald would see of a whole trace, and what it decides."""

    restless = False

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        known: ScoreTable,
        composition: Composition,
        *,
        looks: Looks | None = None,
        sharing: Sharing = NOBODY_SHARES,
        weights: Mapping[str, float] | None = None,
        prices: Mapping[str, float] | None = None,
    ) -> None:
        """`sharing`: what is known of pairs; `weights`: of owners; `prices`: what a GPU of each model bills."""
        self.name, self.wake_at = name, NEVER
        self._composition, self._looks = composition, looks
        self._shares = bool(sharing.beside)
        if self._shares:
            parts = np.where(cluster.gpu_exists, PARTS, 0)
            cluster = replace(cluster, parts=parts, parts_free=parts.copy())
        self._cluster = cluster
        self._apps: dict[str, App] = {}
        rules = PoolRules("ok", {model: (prices or {}).get(model, 1.0) for model in cluster.models} if prices else {})
        self._knowledge = Knowledge(known, Apps(self._apps), rules, sharing)
        self._runs: dict[int, Run] = {}
        self._waiting: dict[int, Job] = {}
        self._running: dict[int, tuple[Job, Placement]] = {}
        self._memory, self._run_times, self._wide = NO_MEMORY, RunTimes(), WideJobs()
        entitlement = composition.entitlement
        self._owed = None if entitlement is None else Owed(entitlement, weights or {})

    def arrive(self, run: Run) -> None:
        work = run.work
        hint = replace(run.job.hint, app=self._named(work.app, work.gpus))
        job = replace(run.job, hint=hint, lease=Lease(0, Request(), asked_to_share=hint.share), by_part=work.gpus == 1)
        if self._owed is not None:
            job = self._owed.owned(job)
        self._runs[job.id], self._waiting[job.id] = run, job

    def _named(self, app: App, gpus: int) -> str:
        """The app by a name of its own: traces have several of one name, by GPUs or by speed."""
        base = app.name if gpus == 1 else f"{app.name} x{gpus}"
        name, number = base, 1
        while self._apps.setdefault(name, app) is not app:
            name, number = f"{base} #{number}", number + 1
        return name

    def ended(self, run: Run, gpus: Gpus) -> None:
        job, where = self._running.pop(run.work.id)
        del self._runs[run.work.id]
        self._wide.ended(run.end, where.nodes, where.n_gpus, self._cluster, job)
        self._run_times.ended(*run_time_of(run))

    def learn(self, known: ScoreTable) -> None:
        self._knowledge = replace(self._knowledge, scores=known)

    def act(self, stage: Stage) -> None:
        seen = self._seen(stage.now)
        due = None
        if self._owed is not None:
            due = self._owed.now(seen, self._knowledge, self._run_times, self._memory.debts)
        facts = Circumstances(alone=True, run_times=self._run_times, wide=self._wide, due=due, shares=self._shares)
        planner = Planner.of(seen, self._knowledge, self._composition, facts, self._memory)
        made = planner.act(stage.now)
        self._memory, self.wake_at = made.memory, made.wake_at
        for decision in made.starts:
            # What goes plain, because it fits only unevenly over its nodes, gets what Slurm would give it.
            where = decision.placement or planner.running[decision.job][1]
            self._starts(decision.job, where, stage)
        if self._looks is None:
            return
        if not made.starts:
            for decision in self._looks.moves(planner, made, self._runs, stage.now):
                assert decision.placement is not None
                self._starts(decision.job, decision.placement, stage)
        self.wake_at = min(self.wake_at, self._looks.wake_at)

    def _starts(self, job: int, where: Placement, stage: Stage) -> None:
        run = self._runs[job]
        stage.start(run, flat(where, self._cluster))
        before = self._running[job][0] if job in self._running else self._waiting.pop(job)
        start, lasts = int(run.started), limit(before)
        ends = None if lasts == NEVER else int(run.started + lasts)
        gpus, parts = ((), where.gpus) if where.shard else (where.gpus, ())
        runs = replace(
            before, state=JobState.RUNNING, nodes=where.nodes, gpus=gpus, parts=parts, shard=where.shard, start=start,
            end=ends,
        )  # fmt: skip
        self._running[job] = runs, where

    def _seen(self, now: float) -> Snapshot:
        cluster = self._cluster
        free = cluster.gpu_exists.copy()
        parts = None if cluster.parts is None else cluster.parts.copy()
        for _, where in self._running.values():
            for node, slots in zip(where.nodes, where.gpus, strict=True):
                row = cluster.node_index[node]
                free[row, list(slots)] = False
                if parts is not None:
                    parts[row, list(slots)] -= 1 if where.shard else PARTS
        cluster = replace(cluster, gpu_free=free, parts_free=parts)
        return Snapshot(now, cluster, tuple(self._waiting.values()), tuple(job for job, _ in self._running.values()))


class Owed:
    """What each job is owed, as pald finds it out (daemon/beside/entitling.py), with an answer at once."""

    def __init__(self, entitlement: Entitlement, weights: Mapping[str, float]) -> None:
        self._entitlement, self._weights = entitlement, weights
        self._accounts: dict[str, float] = {}
        self._fair = FairShares(accounts=self._accounts)
        self._found, self._who = DueNow(entitlement.name, fair=self._fair), frozenset[tuple[JobRef, bool]]()

    def owned(self, job: Job) -> Job:
        """Each user has an account of his own; where the trace names nobody each job is somebody else's."""
        account = job.user or f"of job {job.id}"
        self._accounts[account] = self._weights.get(account, 1.0)
        return replace(job, account=account)

    def now(self, seen: Snapshot, knowledge: Knowledge, run_times: RunTimes, debts: Debts) -> DueNow:
        who = frozenset((job.key, job.pending) for job in (*seen.pending, *seen.running))
        if who != self._who:
            self._who = who
            with suppress(NoAnswer, BadInput):  # then what they were owed before stands
                self._found = due_now(self._entitlement, seen, knowledge, self._fair, run_times)
        return self._found.at(seen, debts)
