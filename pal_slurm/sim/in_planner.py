"""pald's own planner as a scheduler of the engine. In: arrivals, ends, what is learned. Out: what it starts."""

from __future__ import annotations

from pal_slurm.model import Cluster, Gpus, Knowledge, ScoreTable, flat
from pal_slurm.policy import Circumstances, Composition, Plan, Planner, Progress
from pal_slurm.sim.engine import NEVER, Run, Stage

ALONE = Circumstances(alone=True)


class InPlanner:
    """What the planner is told for a whole trace, and what it decides."""

    restless = False

    def __init__(self, name: str, cluster: Cluster, known: ScoreTable, composition: Composition) -> None:
        self.name, self.wake_at = name, NEVER
        self._cluster = cluster
        self._planner = Planner(composition, cluster, Knowledge(known), facts=ALONE)

    def arrive(self, run: Run) -> None:
        self._planner.arrive(run.job, run.work.app, Progress(0.0, run.work.ideal_s()))

    def ended(self, run: Run, gpus: Gpus) -> None:
        self._planner.ended(run.work.id)

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
