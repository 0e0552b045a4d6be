"""pald's own planner as a scheduler of the engine. In: arrivals, ends, what is learned. Out: what it starts."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from statistics import median

from pal_slurm.model import Cluster, Gpus, Knowledge, ScoreTable, flat
from pal_slurm.policy import Circumstances, Composition, Plan, Planner, Progress
from pal_slurm.sim.engine import NEVER, Run, Stage

ALONE = Circumstances(alone=True)
KEPT, EVERY = 500, 20  # ends that tell what share of their limits jobs use, and how often that is reckoned anew


class InPlanner:
    """What the planner is told for a whole trace, and what it decides."""

    restless = False

    def __init__(self, name: str, cluster: Cluster, known: ScoreTable, composition: Composition) -> None:
        self.name, self.wake_at = name, NEVER
        self._cluster = cluster
        self._planner = Planner(composition, cluster, Knowledge(known), facts=ALONE)
        self._used: deque[float] | None = deque(maxlen=KEPT) if composition.patience.habits.forecasts else None
        self._since = 0  # ends since the share was reckoned

    def arrive(self, run: Run) -> None:
        self._planner.arrive(run.job, run.work.app, Progress(0.0, run.work.ideal_s()))

    def ended(self, run: Run, gpus: Gpus) -> None:
        self._planner.ended(run.work.id)
        if self._used is not None and run.work.limit_s:
            self._used.append(min((run.end - run.started) / run.work.limit_s, 1.0))
            self._since += 1
            if self._since >= EVERY:
                self._since = 0
                self._planner.facts = replace(ALONE, of_limit=median(self._used))

    def learn(self, known: ScoreTable) -> None:
        self._planner.learned(Knowledge(known))

    def act(self, stage: Stage) -> None:
        made = self.plan(stage.now)
        for decision in made.starts:
            assert decision.placement is not None  # nothing starts plain where no Slurm chooses
            stage.start(stage.run_of(decision.job), flat(decision.placement, self._cluster))
        self.wake_at = made.wake_at

    def plan(self, now: float) -> Plan:
        return self._planner.act(now)
