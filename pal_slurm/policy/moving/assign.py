"""`assign`: order and fill say who runs; a plan with a price on moves says where, on any GPUs that it likes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pal_slurm.model import Cluster, Gpus, ScoreTable
from pal_slurm.policy.moving.assigner import Assigner, Claim
from pal_slurm.policy.seams import Contender, Mover, Order, WhoRuns, movings


class Assigning:
    """For one cluster and what is known of it."""

    wake_at = math.inf

    def __init__(self, who: WhoRuns, cluster: Cluster, scores: ScoreTable, cost_s: float) -> None:
        self._who, self._cluster, self._cost_s = who, cluster, cost_s
        self._assigner = Assigner(cluster, scores, cost_s)
        self._many = 0  # jobs that run or wait
        self._settled: dict[int, Gpus] | None = {}  # where the last plan put whom; None: it holds no longer

    def arrive(self, here: Contender) -> None:
        self._many += 1
        self._who.arrive(here)

    def ended(self, here: Contender) -> None:
        self._many -= 1
        self._who.ended(here)

    def learn(self, scores: ScoreTable) -> None:
        self._assigner = Assigner(self._cluster, scores, self._cost_s)
        self._settled = None

    def settled(self) -> Iterable[tuple[int, Gpus]]:
        return (self._settled or {}).items()

    def recall(self, settled: Mapping[int, Gpus]) -> None:
        self._settled = dict(settled)

    def act(self, now: float) -> dict[int, Gpus] | None:
        chosen = self._who.choose(now)
        if {here.job.id: here.held for here in chosen} == self._settled:
            return None
        claims = [
            Claim(here.job.id, here.gpus, here.app, here.progress(now).rest_steps, here.held, here.movable)
            for here in chosen
        ]
        where = self._assigner.plan(claims, self._many - len(chosen))
        self._settled = {here.job.id: where[here.job.id] for here in chosen}
        return where


class Assign:
    name = "assign"

    def mover(self, who: WhoRuns, order: Order, cluster: Cluster, scores: ScoreTable, cost_s: float) -> Mover:
        return Assigning(who, cluster, scores, cost_s)


movings.register("assign", lambda _: Assign())
