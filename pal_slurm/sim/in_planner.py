"""pald's own planner as a scheduler of the engine. In: arrivals, ends, what is learned. Out: starts, moves."""

from __future__ import annotations

from pal_slurm.model import Cluster, Gpus, Knowledge, ScoreTable, flat
from pal_slurm.policy import Circumstances, Composition, Plan, Planner
from pal_slurm.sim.engine import NEVER, Run, Stage
from pal_slurm.sim.looks import Looks


class InPlanner:
    """What the planner is told for a whole trace, and what it decides."""

    restless = False

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        known: ScoreTable,
        composition: Composition,
        *,
        looks: Looks | None = None,
    ) -> None:
        """`looks`: for moves, after plans in which nobody starts."""
        self.name, self.wake_at = name, NEVER
        self._cluster, self._looks = cluster, looks
        self._runs: dict[int, Run] = {}
        self._planner = Planner(composition, cluster, Knowledge(known), facts=Circumstances(alone=True))

    def arrive(self, run: Run) -> None:
        self._runs[run.work.id] = run
        self._planner.arrive(run.job, run.work.app, run.progress(0.0))

    def ended(self, run: Run, gpus: Gpus) -> None:
        del self._runs[run.work.id]
        self._planner.ended(run.work.id)
        nodes = {self._cluster.node_names[gpu // self._cluster.width] for gpu in gpus}
        self._planner.facts.wide.ended(run.end, sorted(nodes), len(gpus), self._cluster, run.job)
        self._planner.facts.run_times.ended(*run_time_of(run))

    def learn(self, known: ScoreTable) -> None:
        self._planner.learned(Knowledge(known))

    def act(self, stage: Stage) -> None:
        made = self.plan(stage.now)
        for decision in made.starts:
            run = self._runs[decision.job]
            # What goes plain, because it fits only unevenly over its nodes, gets what Slurm would give it.
            where = decision.placement or self._planner.running[decision.job][1]
            stage.start(run, flat(where, self._cluster))
        self.wake_at = made.wake_at
        if self._looks is not None:
            self._better(made, stage, self._looks)

    def _better(self, made: Plan, stage: Stage, looks: Looks) -> None:
        if not made.starts:
            for decision in looks.moves(self._planner, made, self._runs, stage.now):
                assert decision.placement is not None
                stage.start(self._runs[decision.job], flat(decision.placement, self._cluster))
        self.wake_at = min(self.wake_at, looks.wake_at)

    def plan(self, now: float) -> Plan:
        return self._planner.act(now)


def run_time_of(run: Run) -> tuple[str, str, str, float | None, float]:
    """What a job that has ended tells of others: user, application, class shown, limit, seconds on its best GPUs."""
    work = run.work
    best = min(work.app.base.values(), default=1.0) / run.step
    return work.user, work.app.name, "", work.limit_s, (run.attained + run.end - run.started) * best
