"""The artifact's policies as a scheduler of the engine. In: arrivals and ends. Out: starts, stops and moves."""

from __future__ import annotations

from functools import partial

from pal_slurm.model import Cluster, ScoreTable
from pal_slurm.policy import Planner
from pal_slurm.policy.seams import Contender, Order, fills
from pal_slurm.policy.who import who_runs
from pal_slurm.scores import bin_scores, binned
from pal_slurm.sim.artifact import Ask, Board, Gpus, rounds_named
from pal_slurm.sim.engine import NEVER, Run, Stage

# the artifact's silhouette loop returns in its first turn, so its K is always 2
published = partial(bin_scores, regular=2)


class InRounds:
    """Lets order and fill choose who runs, and a policy in rounds where."""

    wake_at = NEVER

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        known: ScoreTable,
        locality: float,
        order: Order,
        *,
        fill: str = "none",
        changing: bool = False,
    ) -> None:
        """`changing`: the order changes while jobs run."""
        self.name = name
        self.restless = changing and fill != "easy"
        self._order = order
        self._classes = known
        board = Board(binned(known.classes, known.score, known.known, published), locality, cluster.gpu_exists)
        self._rounds = rounds_named(name, board)
        self._who = who_runs(Planner, fills.get(fill), order, cluster.n_gpus, changing=changing)
        self._here: dict[int, tuple[Run, Contender]] = {}
        self._held: dict[int, Run] = {}

    def arrive(self, run: Run) -> None:
        here = Contender(run.job, run.work.app, run.work.gpus, run.progress)
        self._here[run.work.id] = (run, here)
        self._who.arrive(here)

    def ended(self, run: Run, gpus: Gpus) -> None:
        del self._held[run.work.id]
        self._who.ended(self._here.pop(run.work.id)[1])
        self._rounds.ended(run.work.id)

    def learn(self, known: ScoreTable) -> None:
        """The artifact's knowledge is static."""

    def act(self, stage: Stage) -> None:
        now = stage.now
        chosen = {here.job.id: self._here[here.job.id][0] for here in self._who.choose(now)}
        leaving = [run for job, run in self._held.items() if job not in chosen]
        leaving.sort(key=lambda run: self._order.key(run.job, run.progress(now)))
        for run in leaving:
            del self._held[run.work.id]
            stage.stop(run)
        index = self._classes.index
        asks = [Ask(job, run.work.gpus, index(run.work.app.cls)) for job, run in chosen.items()]
        for job, gpus in self._rounds.round(asks, [run.work.id for run in leaving]).items():
            self._held[job] = chosen[job]
            stage.start(chosen[job], gpus)
