"""`assign`: order and fill say who runs; a plan with a price on moves says where, on any GPUs that it likes."""

from __future__ import annotations

from pal_slurm.model import Cluster, Gpus, ScoreTable
from pal_slurm.policy.moving.assigner import Assigner, Claim
from pal_slurm.policy.seams import Contender, Mover, Order, WhoRuns, movings


class Assigning:
    """For one cluster and what is known of it."""

    def __init__(self, who: WhoRuns, cluster: Cluster, scores: ScoreTable, cost_s: float) -> None:
        self._who, self._cluster, self._cost_s = who, cluster, cost_s
        self._assigner = Assigner(cluster, scores, cost_s)
        self._changed = False
        self._here: set[int] = set()
        self._runs: set[int] = set()

    def arrive(self, here: Contender) -> None:
        self._here.add(here.job.id)
        if here.held:
            self._runs.add(here.job.id)
            self._changed = True
        self._who.arrive(here)

    def ended(self, here: Contender) -> None:
        self._here.discard(here.job.id)
        self._runs.discard(here.job.id)
        self._who.ended(here)
        self._changed = True

    def learn(self, scores: ScoreTable) -> None:
        self._assigner = Assigner(self._cluster, scores, self._cost_s)
        self._changed = True

    def act(self, now: float) -> dict[int, Gpus] | None:
        chosen = self._who.choose(now)
        jobs = {here.job.id for here in chosen}
        if jobs == self._runs and not self._changed:
            return None
        self._changed, self._runs = False, jobs
        claims = [
            Claim(here.job.id, here.gpus, here.app, here.progress(now).rest_steps, here.held, here.movable)
            for here in chosen
        ]
        return self._assigner.plan(claims, len(self._here) - len(chosen))


class Assign:
    def mover(self, who: WhoRuns, order: Order, cluster: Cluster, scores: ScoreTable, cost_s: float) -> Mover:
        return Assigning(who, cluster, scores, cost_s)


movings.register("assign", lambda _: Assign())
