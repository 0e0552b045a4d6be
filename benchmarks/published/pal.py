"""PAL's published loop (SC'24), bug for bug. In: arrivals and ends. Out: in each round, starts, stops and moves.

PAL frees every GPU each round and places the head of the queue anew; its rival `packed-sticky` leaves running jobs
where they are. Semantics: docs/simulator.md.

The longest head of the order that fits into the cluster runs. In the published code that follows from placing until
the first job that does not fit: its placers take any free GPUs, so they fail only when too few are free, and its
eviction of running jobs from the tail of the order ends with the same set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Protocol

from benchmarks.published.admission import ActiveJob, admission
from benchmarks.published.pal_board import PLACERS, FreeGpus, GpuRequest, Gpus, Placer
from pal_slurm.errors import ConfigError
from pal_slurm.model import Cluster, ScoreTable
from pal_slurm.policy.seams import Order
from pal_slurm.scores import bin_scores, binned
from pal_slurm.sim.engine import NEVER, Run, Stage

# the published silhouette loop returns in its first turn, so its K is always 2
published = partial(bin_scores, regular=2)


class Rounds(Protocol):
    """A policy in rounds. It keeps its board between rounds; `ended` tells it who has come to an end."""

    def ended(self, job: int) -> None: ...
    def round(self, asks: Sequence[GpuRequest], leaving: Sequence[int]) -> dict[int, Gpus]:
        """The GPUs of every job that starts or moves. `leaving`: running jobs that may not go on, in order."""


class PlaceAnew:
    """Frees everything and places all anew (PAL, PM-First, Gandiva's packing).

    Placing is a function of the sequence of jobs, so what has the same jobs before it as last time stays.
    """

    def __init__(self, board: FreeGpus, placer: Placer, sort_by_class: bool) -> None:
        self._board = board
        self._placer = placer
        self._sort = sort_by_class
        self._last: dict[int, tuple[GpuRequest, Gpus]] = {}
        self._held: dict[int, Gpus] = {}

    def ended(self, job: int) -> None:
        self._held.pop(job, None)

    def round(self, asks: Sequence[GpuRequest], leaving: Sequence[int]) -> dict[int, Gpus]:
        for job in leaving:
            del self._held[job]
        if self._sort:
            asks = sorted(asks, key=lambda ask: ask.cls)
        last = list(self._last.values())
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], zip(asks, last, strict=False)))
        for ask, gpus in last[same:]:
            self._board.give(gpus)
            del self._last[ask.job]
        out: dict[int, Gpus] = {}
        for ask in asks[same:]:
            placed = self._placer(self._board, ask)
            if placed is None:
                break
            self._board.take(placed)
            self._last[ask.job] = (ask, placed)
            if self._held.get(ask.job) != placed:
                self._held[ask.job] = out[ask.job] = placed
        return out


class KeepRunning:
    """Running jobs keep their GPUs; those that may not go on are stopped from the tail as room is needed."""

    def __init__(self, board: FreeGpus) -> None:
        self._board = board
        self._held: dict[int, Gpus] = {}

    def ended(self, job: int) -> None:
        self._board.give(self._held.pop(job))

    def round(self, asks: Sequence[GpuRequest], leaving: Sequence[int]) -> dict[int, Gpus]:
        out: dict[int, Gpus] = {}
        victims = list(leaving)
        for ask in asks:
            if ask.job in self._held:
                continue
            gpus = self._board.packed(ask.gpus)
            while gpus is None and victims:
                self.ended(victims.pop())
                gpus = self._board.packed(ask.gpus)
            if gpus is None:
                break
            self._board.take(gpus)
            self._held[ask.job] = out[ask.job] = gpus
        for job in victims:  # the job that ended the head of the order has stopped them all
            self.ended(job)
        return out


_MAKERS: Mapping[str, Callable[[FreeGpus], Rounds]] = {
    "artifact/pal": lambda board: PlaceAnew(board, PLACERS["pal"], sort_by_class=True),
    "artifact/pm-first": lambda board: PlaceAnew(board, PLACERS["pm-first"], sort_by_class=True),
    "artifact/packed-nonsticky": lambda board: PlaceAnew(board, PLACERS["packed"], sort_by_class=False),
    "artifact/packed-sticky": KeepRunning,
}
ROUND_NAMES = tuple(_MAKERS)


def rounds_named(name: str, board: FreeGpus) -> Rounds:
    """The policy of that name on an empty board."""
    if name not in _MAKERS:
        raise ConfigError(f"There is no policy {name!r}; choose one of {', '.join(_MAKERS)}.")
    return _MAKERS[name](board)


class PalRounds:
    """Order and fill choose which jobs run, and a policy in rounds where."""

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
        board = FreeGpus(binned(known.classes, known.score, known.known, published), locality, cluster.gpu_exists)
        self._rounds = rounds_named(name, board)
        self._who = admission(fill, order, cluster.n_gpus, changing=changing)
        self._here: dict[int, tuple[Run, ActiveJob]] = {}
        self._held: dict[int, Run] = {}

    def arrive(self, run: Run) -> None:
        here = ActiveJob(run.job, run.work.app, run.work.gpus, run.progress)
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
        asks = [GpuRequest(job, run.work.gpus, index(run.work.app.cls)) for job, run in chosen.items()]
        for job, gpus in self._rounds.round(asks, [run.work.id for run in leaving]).items():
            self._held[job] = chosen[job]
            stage.start(chosen[job], gpus)
