"""Looks for moves, as pald has them after a plan in which nobody starts. In: a planner, runs. Out: moves.

The look itself is pald's (policy/moving/value.py), and so are its bounds: the keys of `moves` in pal.yaml.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace

from pal_slurm.config.moves import MovesSection
from pal_slurm.model import Decision, Job, JobState, Placement, Snapshot
from pal_slurm.policy import Plan, Planner
from pal_slurm.policy.easy import limit
from pal_slurm.policy.moving.value import ByValue, ForRoom, MayMove
from pal_slurm.sim.running import Run

HOUR_S, DAY_S = 3_600.0, 86_400.0


class Looks:
    """For one run of the simulator, in which a move takes no time but the restart that it costs its job."""

    def __init__(self, cost_s: float, keys: MovesSection | None = None, every_s: float = 300.0) -> None:
        """`every_s`: how long after an event it looks once more: jobs that run for longer are worth more."""
        self._keys, self._cost_s, self._every_s = keys or MovesSection(), cost_s, every_s
        self.wake_at = math.inf
        self._once_more = math.inf
        self._of_job: Counter[tuple[int, int]] = Counter()  # by job and day
        self._as_running: dict[int, tuple[int, MayMove]] = {}  # by job: at which start
        self._hour: deque[float] = deque()  # when jobs were moved

    def moves(self, planner: Planner, made: Plan, runs: Mapping[int, Run], now: float) -> list[Decision]:
        """What the planner holds is changed with it."""
        self.wake_at = math.inf if now == self._once_more else now + self._every_s
        self._once_more = self.wake_at
        movers = [self._mover(job, where, runs[job.id], now) for job, where in planner.running.values()]
        movable = [mover for mover in movers if mover is not None]
        if not movable:
            return []
        heads = {kept.job: kept.start for kept in made.reserved}
        waiting = planner.queue.waiting
        waits = [ForRoom(waiting[job].place.job, at, waiting[job].app) for job, at in heads.items() if job in waiting]
        view = Snapshot(now, planner.cluster, (), ())
        look = ByValue(
            view, planner.knowledge, planner.composition.placement, self._keys.margin, self._room(now), waits,
            planner.facts.of_limit, planner.floor,
        )  # fmt: skip
        found = look.moves(movable)
        jobs = {d.job: planner.running[d.job][0] for d in found}
        for decision in found:
            planner.ended(decision.job)
        for decision in found:
            assert decision.placement is not None
            job = jobs[decision.job]
            planner.started(job, decision.placement, now + limit(job))
            self._of_job[job.id, int(now // DAY_S)] += 1
            self._hour.append(now)
        if found:
            self.wake_at = now  # who waits may start now
        return found

    def _room(self, now: float) -> int:
        while self._hour and self._hour[0] <= now - HOUR_S:
            self._hour.popleft()
        return min(self._keys.at_once, self._keys.per_cluster - len(self._hour))

    def _mover(self, job: Job, where: Placement, run: Run, now: float) -> MayMove | None:
        """As the guard judges one; its limit counts anew with each start, as Slurm's does."""
        keys, end = self._keys, run.started + limit(job)
        if not run.work.requeue or now < run.started + keys.first_s or now > end - keys.last_s:
            return None
        if self._of_job[job.id, int(now // DAY_S)] >= keys.per_job:
            return None
        known = self._as_running.get(job.id)
        if known is None or known[0] != run.starts:
            start, ends = int(run.started), None if end == math.inf else int(end)
            runs = replace(job, state=JobState.RUNNING, nodes=where.nodes, gpus=where.gpus, start=start, end=ends)
            known = self._as_running[job.id] = run.starts, MayMove(runs, self._cost_s, run.work.app)
        return known[1]
