"""Looks for moves, as pald has them after a plan in which nobody starts. In: a planner, runs. Out: moves.

The look itself is pald's (policy/moving/value.py), and so are its bounds: the keys of `moves` in pal.yaml, and the
guard's word on what of them is used up. What a move brought is not measured here: moves never stop by themselves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pal_slurm.config.moves import MovesSection
from pal_slurm.daemon.moves.budget import DAY_S, bounds
from pal_slurm.daemon.moves.proposing import CROWD
from pal_slurm.guard import MoveRules
from pal_slurm.guard.running import check_budget, ring_of
from pal_slurm.guard.verdict import No
from pal_slurm.model import Cluster, Decision, Ending, Job, JobState, Move, Placement, Snapshot, flat
from pal_slurm.policy import Plan, Planner
from pal_slurm.policy.easy import limit
from pal_slurm.policy.line import Group
from pal_slurm.policy.moving.value import ByValue, ForRoom, Holds, MayMove
from pal_slurm.sim.running import Run


class Looks:
    """For one run of the simulator, in which a move takes no time but the restart that it costs its job."""

    def __init__(self, cost_s: float, keys: MovesSection | None = None, every_s: float = 300.0) -> None:
        """`every_s`: how long after an event it looks once more: jobs that run for longer are worth more."""
        self._keys, self._cost_s, self._every_s = keys or MovesSection(), cost_s, every_s
        self.wake_at = math.inf
        self._once_more = math.inf
        self._day: deque[Move] = deque()  # those of the last one
        self._held: dict[int, Holds] = {}
        self._as_running: dict[int, tuple[int, MayMove]] = {}  # by job: at which start

    def moves(self, planner: Planner, made: Plan, runs: Mapping[int, Run], now: float) -> list[Decision]:
        """What the planner holds is changed with it."""
        self.wake_at = math.inf if now == self._once_more else now + self._every_s
        self._once_more = self.wake_at
        while self._day and self._day[0].began_at <= now - DAY_S:
            self._day.popleft()
        rules = bounds(self._keys, self._day, now)
        movers = [self._mover(job, where, runs[job.id], rules, now) for job, where in planner.running.values()]
        movable = {mover.job.id: mover for mover in movers if mover is not None}
        most = min(rules.at_once, rules.per_cluster - rules.of_cluster)
        if not movable or most <= 0:
            return []
        heads = {kept.job: kept.start for kept in made.reserved}
        waiting = planner.queue.waiting
        waits = [ForRoom(waiting[job].place.job, at, waiting[job].app) for job, at in heads.items() if job in waiting]
        view = Snapshot(now, planner.cluster, (), ())
        look = ByValue(
            view,
            planner.knowledge,
            planner.composition.placement,
            self._keys.margin,
            most,
            waits,
            planner.facts.run_times,
            made.kept,
            planner.floor,
            crowded=any(map(_crowds, planner.queue.groups.values())),
            held=self._held,
        )
        found = list(_within(look.moves(list(movable.values())), movable, planner.cluster, rules))
        jobs = {d.job: planner.running[d.job][0] for d in found}
        for decision in found:
            planner.ended(decision.job)
        for decision in found:
            assert decision.placement is not None
            job = jobs[decision.job]
            end = runs[job.id].first_start + limit(job) + self._cost_s * runs[job.id].starts
            run = runs[job.id]
            best = min(run.work.app.base.values(), default=1.0)
            rest = planner.facts.run_times.of(job, run.work.app.name).rest(run.attained_at(now) * best / run.step)
            step = planner.speeds.step(run.work.app, flat(decision.placement, planner.cluster))
            rest = self._cost_s + rest * step / best
            planner.started(job, decision.placement, end if end > now else now + limit(job), now + rest)
            self._day.append(_moved(decision, movable[job.id].job, now))
        if found:
            self.wake_at = now  # who waits may start now
        return found

    def _mover(self, job: Job, where: Placement, run: Run, rules: MoveRules, now: float) -> MayMove | None:
        """As the guard judges one; its limit counts anew with each start, as Slurm's does."""
        end = run.started + limit(job)
        if where.shard or not run.work.requeue or now < run.started + rules.first_s or now > end - rules.last_s:
            return None
        if rules.of_job.get(job.id, 0) >= rules.per_job:
            return None
        known = self._as_running.get(job.id)
        if known is None or known[0] != run.starts:
            start, ends = int(run.started), None if end == math.inf else int(end)
            user = job.user or f"of job {job.id}"  # where a trace names nobody each job is somebody else's
            runs = replace(
                job, user=user, state=JobState.RUNNING, nodes=where.nodes, gpus=where.gpus, start=start, end=ends
            )
            known = self._as_running[job.id] = run.starts, MayMove(runs, self._cost_s, run.work.app)
        return known[1]


def _crowds(group: Group) -> bool:
    """Whether one of this kind waits for room or for a pool; the others wait for better GPUs of their own accord."""
    return len(group.line) > sum(refusal.reason not in CROWD for refusal in group.refused.values())


def _within(
    found: Sequence[Decision], movable: Mapping[int, MayMove], cluster: Cluster, rules: MoveRules
) -> Iterator[Decision]:
    """Those that the guard lets pass; of those that exchange their GPUs all, or none."""
    begun: list[Job] = []
    refused: set[int] = set()
    for decision in found:
        job = movable[decision.job].job
        try:
            check_budget(job, decision, cluster, rules, begun)
        except No:
            refused.add(job.id)
        else:
            begun.append(job)
    by_job = {decision.job: decision for decision in found}
    for decision in found:
        if refused.isdisjoint((decision.job, *ring_of(decision, by_job))):
            yield decision


def _moved(decision: Decision, job: Job, now: float) -> Move:
    cost_s = decision.terms.cost_s if decision.terms is not None else 0.0
    return Move(
        job.id, job.submit, job.user, 0, Placement(job.nodes, job.gpus, exact=False), job.request, now,
        target=decision.placement, cost_s=cost_s, ending=Ending.MOVED,
    )  # fmt: skip
