"""A plan for jobs that may be moved. In: who comes and goes, a composition's `moving`. Out: a Plan.

Waiting and running jobs are claims of one plan; who may not be moved has one possible place once it runs. Any set of
GPUs will do here, so this is for clusters where any can be asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from pal_slurm.model import (
    Action,
    App,
    Cluster,
    Decision,
    Gpus,
    Job,
    Placement,
    Reason,
    ScoreTable,
    flat,
    placement_of,
)
from pal_slurm.policy.composition import Composition
from pal_slurm.policy.memory import Memory
from pal_slurm.policy.plan import Circumstances, Plan
from pal_slurm.policy.seams import Contender, Mover
from pal_slurm.policy.who import who_runs

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner


class Moves:
    """All jobs of a cluster."""

    def __init__(
        self, kind: type[Planner], composition: Composition, cluster: Cluster, scores: ScoreTable, facts: Circumstances
    ) -> None:
        c = composition
        assert c.moving is not None
        who = who_runs(kind, c.fill, c.order, cluster.n_gpus, changing=c.changing)
        self._mover: Mover = c.moving.mover(who, c.order, cluster, scores, facts.move_cost_s)
        self._name, self._order, self._cluster, self._facts = c.moving.name, c.order, cluster, facts
        self._here: dict[int, Contender] = {}

    def arrive(self, job: Job, app: App) -> None:
        self._come(job, app, gpus_of(job))

    def started(self, job: Job, app: App, placement: Placement, until: float) -> None:
        """It runs there, as we have planned it or not."""
        gpus = flat(placement, self._cluster)
        here = self._here.get(job.id)
        if here is None or here.held != gpus:
            if here is not None:
                self.ended(job.id)
            self._come(job, app, len(gpus), gpus, until)

    def _come(self, job: Job, app: App, gpus: int, held: Gpus = (), until: float = math.inf) -> None:
        facts = self._facts
        here = Contender(job, app, gpus, partial(facts.progress, job), facts.movable(job), held, until)
        self._here[job.id] = here
        self._mover.arrive(here)

    def ended(self, job: int) -> None:
        self._mover.ended(self._here.pop(job))

    def learned(self, scores: ScoreTable) -> None:
        self._mover.learn(scores)

    def as_begun(self, running: Iterable[Job], memory: Memory) -> list[Job]:
        """As the last plan had them; then in the order in which they came to run."""
        rank = {job: i for i, job in enumerate(self._settled(memory))}
        return sorted(running, key=lambda job: (rank.get(job.id, math.inf), job.start or 0, self._order.key(job, None)))

    def recall(self, memory: Memory) -> None:
        """What the last plan has settled."""
        self._mover.recall(self._settled(memory))

    def _settled(self, memory: Memory) -> dict[int, Gpus]:
        return {job: gpus for job, gpus in memory.settled if gpus} if memory.mover == self._name else {}

    def _remembered(self) -> Memory:
        return Memory(settled=tuple(self._mover.settled()), mover=self._name)

    def act(self, now: float) -> Plan:
        where = self._mover.act(now)
        waits = partial(self._waits, now)
        if where is None:
            return Plan((), (), self._mover.wake_at, waits, self._remembered)
        starts: list[Decision] = []
        moves = [self._stop(here) for job, here in self._here.items() if here.held and job not in where]
        for job, gpus in where.items():
            here = self._here[job]
            if here.held == gpus:
                continue
            action = Action.MOVE if here.held else Action.START
            decision = Decision(job, None, action, Reason.BEST_SPAN, placement_of(gpus, self._cluster))
            (moves if here.held else starts).append(decision)
            here.held = gpus
        return Plan(tuple(starts), (), self._mover.wake_at, waits, self._remembered, moves=tuple(moves))

    def _stop(self, here: Contender) -> Decision:
        here.held = ()
        return Decision(here.job.id, None, Action.STOP, Reason.BEHIND_HEAD)

    def _waits(self, now: float) -> Iterator[Decision]:
        """All that do, in their order."""
        jobs = [
            (self._order.key(here.job, here.progress(now)), job) for job, here in self._here.items() if not here.held
        ]
        return (Decision(job, None, Action.WAIT, Reason.NO_ROOM, rank=i) for i, (_, job) in enumerate(sorted(jobs)))


def gpus_of(job: Job) -> int:
    """GPUs that it asks for."""
    return job.shape.least_gpus if job.shape else 0
