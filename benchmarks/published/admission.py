"""Which jobs run, before anybody asks where. In: jobs that come and end, an order. Out: the jobs to hold GPUs now.

For schedulers that may place running jobs anew: any free GPUs will do for any job, so GPUs are only counted. One rule
serves both sides of a comparison.
`none`: the longest head of the order that fits; the first that does not fit blocks all behind it (the published code).
`holes`: every job of the order that still fits, from its head on; a job in a hole is stopped for a job ahead of it.
`easy`: what runs, runs on; the head of the waiting jobs gets a reservation from the time limits, and a later job starts
only where that reservation stands.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from pal_slurm.errors import ConfigError
from pal_slurm.model import App, Apps, Gpus, Job, Knowledge, Placement, Shape, homogeneous, neutral_scores
from pal_slurm.policy import Circumstances, Composition, Plan, Planner, Progress
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.freegpus import slots_of
from pal_slurm.policy.line import FIRST, Key
from pal_slurm.policy.needs import Need
from pal_slurm.policy.patience.none import NoPatience
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import Order, fills

ANY_APP = App("any", "A")
FILLS = ("none", "easy", "holes")


@dataclass(slots=True, eq=False)
class ActiveJob:
    """A job that runs or waits."""

    job: Job
    app: App
    gpus: int
    progress: Callable[[float], Progress]  # at a moment
    movable: bool = True
    held: Gpus = ()  # where it runs

    @property
    def fixed(self) -> bool:
        """It runs, and stays where it is."""
        return bool(self.held) and not self.movable

    @property
    def limit_s(self) -> float:
        return math.inf if self.job.time_limit_s is None else float(self.job.time_limit_s)


class Admission(Protocol):
    """Order and fill, where GPUs are counted and not named."""

    def arrive(self, here: ActiveJob) -> None: ...
    def ended(self, here: ActiveJob) -> None: ...
    def choose(self, now: float) -> list[ActiveJob]:
        """All that should run now, in the order; the others that run are to be stopped."""


def admission(fill: str, order: Order, n_gpus: int, *, changing: bool) -> Admission:
    """`changing`: the order changes while jobs run."""
    if fill not in FILLS:
        raise ConfigError(f"There is no fill {fill!r}; choose one of {', '.join(FILLS)}.")
    if fill == "easy":
        return EasyBackfill(order, n_gpus)
    return OrderOnly(order, n_gpus, holes=fill == "holes", changing=changing)


class OrderOnly:
    """`none` and `holes`: the order alone decides, each time anew; but a job that can't be stopped runs on."""

    def __init__(self, order: Order, n_gpus: int, *, holes: bool, changing: bool) -> None:
        self._order = order
        self._n_gpus = n_gpus
        self._holes = holes
        self._changing = changing
        self._here: list[tuple[Key, ActiveJob]] = []  # by what they are before they ran

    def arrive(self, here: ActiveJob) -> None:
        insort(self._here, self._placed(here), key=FIRST)

    def ended(self, here: ActiveJob) -> None:
        del self._here[bisect_left(self._here, self._placed(here)[0], key=FIRST)]

    def _placed(self, here: ActiveJob) -> tuple[Key, ActiveJob]:
        return self._order.key(here.job, None), here

    def choose(self, now: float) -> list[ActiveJob]:
        chosen = [here for _, here in self._here if here.fixed]
        room = self._n_gpus - sum(here.gpus for here in chosen)
        for here in self._in_order(now):
            if here.fixed:
                continue
            if here.gpus <= room:
                chosen.append(here)
                room -= here.gpus
            elif not self._holes:
                break
            if not room:
                break
        return chosen

    def _in_order(self, now: float) -> Iterable[ActiveJob]:
        here, key = [here for _, here in self._here], self._order.key
        return sorted(here, key=lambda one: key(one.job, one.progress(now))) if self._changing else here


class EasyBackfill:
    """`easy`: nobody is stopped, and nobody ahead is delayed beyond what time limits promise.

    The planner itself, over one node of GPUs without names: its line, its walk and its EASY.
    """

    def __init__(self, order: Order, n_gpus: int) -> None:
        one = homogeneous(1, n_gpus, cpus=n_gpus)  # a job has one at least
        parts = Composition("who", order, AnyGpus(), NoPatience(), fills.get("easy"))
        known = Knowledge(neutral_scores(one, (ANY_APP.cls,)), Apps({}, ANY_APP))
        self._planner = Planner(parts, one, known, facts=Circumstances(alone=True))
        self._here: dict[int, ActiveJob] = {}
        self._running: dict[int, ActiveJob] = {}

    def arrive(self, here: ActiveJob) -> None:
        self._here[here.job.id] = here
        job = replace(
            here.job, shape=Shape(gpus=here.gpus), partitions=(), features="", excluded_nodes="", cpus_alloc=0
        )
        self._planner.arrive(job, ANY_APP, here.progress(0.0))

    def ended(self, here: ActiveJob) -> None:
        del self._here[here.job.id]
        self._running.pop(here.job.id, None)
        self._planner.ended(here.job.id)

    def choose(self, now: float) -> list[ActiveJob]:
        made = self.plan(now)
        self._running.update((d.job, self._here[d.job]) for d in made.starts)
        return list(self._running.values())

    def plan(self, now: float) -> Plan:
        return self._planner.act(now)


class AnyGpus(Ranking):
    """On one node, where nobody asks which."""

    def place_kind(self, need: Need, app: App, floor: Floor) -> Placement | None:
        gpus = need.shape.least_gpus
        return any_of(floor, gpus) if floor.open_gpus()[0] >= gpus else None


def any_of(floor: Floor, gpus: int) -> Placement:
    return Placement(floor.cluster.node_names, (slots_of(floor.masks[0])[:gpus],), False)
