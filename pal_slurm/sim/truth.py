"""How fast jobs run on sets of flat GPU numbers. In: scores, true or known. Out: seconds per step, by the one equation.

The engine makes one of the true scores, which no policy sees; a scheduler may make one of what it knows.
"""

from __future__ import annotations

from pal_slurm.model import App, Cluster, ScoreTable, Tier, base_of, comm_of, step_time

Gpus = tuple[int, ...]  # flat numbers: node * width + slot, ascending


class Truth:
    """The speed of any set of flat GPU numbers, from plain lists: one call costs about a microsecond per GPU."""

    def __init__(self, cluster: Cluster, scores: ScoreTable) -> None:
        self._width = cluster.width
        self._rack: list[int] = cluster.rack.tolist()
        self._scores: list[list[float]] = [table.ravel().tolist() for table in scores.score]
        self._index = scores
        self._models = cluster.models
        self._model: list[int] | None = None if len(cluster.models) == 1 else cluster.gpu_model.ravel().tolist()

    def worst(self, app: App, gpus: Gpus) -> float:
        """The score of the slowest of these GPUs for this application."""
        score = self._scores[self._index.index(app.cls)]
        return max([score[g] for g in gpus])

    def step(self, app: App, gpus: Gpus) -> float:
        worst = self.worst(app, gpus)
        if self._model is None:
            base = base_of(app, self._models[0])
        else:
            base = max(base_of(app, self._models[m]) for m in {self._model[g] for g in gpus})
        return step_time(base, worst, comm_of(app, self.tier(gpus)))

    def tier(self, gpus: Gpus) -> Tier:
        """The span; flat numbers ascend, so the ends tell whether one node holds them all."""
        first, last = gpus[0] // self._width, gpus[-1] // self._width
        if first == last:
            return Tier.GPU if len(gpus) == 1 else Tier.NODE
        rack = self._rack[first]
        one_rack = all(self._rack[g // self._width] == rack for g in gpus)
        return Tier.RACK if one_rack else Tier.CLUSTER
