"""`pal` for jobs that may be moved, as a scheduler of the engine. In: arrivals and ends. Out: starts, moves, stops.

The admission says who runs; policy/assign.py says where, and what is worth a move.
"""

from __future__ import annotations

from pal_slurm.model import Cluster, Gpus, ScoreTable
from pal_slurm.policy.assign import Assigner, Claim
from pal_slurm.policy.seams import Order
from pal_slurm.sim.admission import admission
from pal_slurm.sim.engine import NEVER, Run, Stage


class InMoves:
    """Lets the admission choose who runs, and the assigner where."""

    wake_at = NEVER

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        known: ScoreTable,
        order: Order,
        *,
        move_cost_s: float,
        fill: str = "easy",
        moving: bool = False,
    ) -> None:
        """`moving`: the order changes while jobs run."""
        self.name = name
        self.restless = moving and fill != "easy"
        self._cluster = cluster
        self._move_cost_s = move_cost_s
        self._assigner = Assigner(cluster, known, move_cost_s)
        self._admission = admission(fill, order, cluster.n_gpus, moving=moving)
        self._held: dict[int, Run] = {}
        self._changed = False
        self._here = 0  # jobs that hold GPUs or wait

    def arrive(self, run: Run) -> None:
        self._here += 1
        self._admission.arrive(run)

    def ended(self, run: Run, gpus: Gpus) -> None:
        self._here -= 1
        del self._held[run.work.id]
        self._admission.ended(run)
        self._changed = True

    def learn(self, known: ScoreTable) -> None:
        self._assigner = Assigner(self._cluster, known, self._move_cost_s)
        self._changed = True

    def act(self, stage: Stage) -> None:
        chosen = {run.work.id: run for run in self._admission.choose(stage.now)}
        for job in [job for job in self._held if job not in chosen]:
            stage.stop(self._held.pop(job))
        if len(chosen) == len(self._held) and not self._changed:
            return
        self._changed = False
        claims = [
            Claim(job, run.work.gpus, run.work.app, run.steps_left(stage.now), run.gpus) for job, run in chosen.items()
        ]
        for job, gpus in self._assigner.plan(claims, self._here - len(chosen)).items():
            self._held[job] = chosen[job]
            if chosen[job].gpus != gpus:
                stage.start(chosen[job], gpus)
