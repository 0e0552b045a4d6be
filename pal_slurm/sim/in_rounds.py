"""The artifact's policies as a scheduler of the engine. In: arrivals and ends. Out: starts, stops and moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pal_slurm.errors import ConfigError
from pal_slurm.model import Cluster, ScoreTable
from pal_slurm.policy.artifact import Ask, Board, Gpus, rounds_named
from pal_slurm.sim.engine import Run, Stage

Key = Callable[[Run, float], float]

# attained seconds count time, not time x GPUs, as in the artifact; None: by submission
ORDERS: Mapping[str, Key | None] = {
    "fifo": None,
    "las": lambda run, now: run.attained_at(now),
    "srtf": lambda run, now: run.work.ideal_s() - run.attained_at(now),
}


class InRounds:
    """Keeps the queue in order and hands its head to a policy in rounds."""

    def __init__(self, name: str, cluster: Cluster, known: ScoreTable, locality: float, order: str = "fifo") -> None:
        if order not in ORDERS:
            raise ConfigError(f"{name} knows the orders {', '.join(ORDERS)}, not {order!r}.")
        self.name = name
        self._cluster = cluster
        self._locality = locality
        self._known = known
        self._rounds = rounds_named(name, Board(known, locality, cluster.gpu_exists))
        self._key = ORDERS[order]
        self._asks: dict[int, Ask] = {}  # in order of submission
        self._runs: dict[int, Run] = {}

    @property
    def restless(self) -> bool:
        """FIFO's order stands still between events; the others' does not."""
        return self._key is not None

    def arrive(self, run: Run) -> None:
        work = run.work
        self._asks[work.id] = Ask(work.id, work.gpus, self._known.index(work.app.cls))
        self._runs[work.id] = run

    def ended(self, run: Run, gpus: Gpus) -> None:
        del self._asks[run.work.id], self._runs[run.work.id]
        self._rounds.ended(run.work.id)

    def learn(self, known: ScoreTable) -> None:
        """The artifact's knowledge is static."""

    def act(self, stage: Stage) -> None:
        done = self._rounds.round(self._in_order(stage.now))
        for job in done.stopped:
            stage.stop(self._runs[job])
        for job, gpus in done.placed.items():
            stage.start(self._runs[job], gpus)

    def _in_order(self, now: float) -> Iterable[Ask]:
        key = self._key
        if key is None:
            return self._asks.values()
        runs = self._runs
        return sorted(self._asks.values(), key=lambda ask: key(runs[ask.job], now))
