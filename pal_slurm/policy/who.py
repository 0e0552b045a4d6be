"""Who runs, before anybody asks where. In: who comes, who ends, an order. Out: the jobs that should hold GPUs now.

For those who place anew what runs: any free GPUs will do for any job, so GPUs are counted. One rule serves both sides
of a comparison.
`none`: the longest head of the order that fits; the first that does not fit blocks all behind it (the artifact).
`holes`: every job of the order that still fits, from its head on; who runs in a hole is stopped for a job ahead.
`easy`: what runs, runs on; the head of the waiting line gets a reservation from the time limits, and a later job starts
only where that reservation stands.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from pal_slurm.model import App, Apps, Knowledge, Placement, Shape, homogeneous, neutral_scores
from pal_slurm.policy.composition import Composition
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.freegpus import slots_of
from pal_slurm.policy.line import FIRST, Key
from pal_slurm.policy.needs import Need
from pal_slurm.policy.patience.none import NoPatience
from pal_slurm.policy.plan import Circumstances, Plan
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import Contender, Fill, Order, WhoRuns

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner

ALIKE = App("any", "A")


def who_runs(planner: type[Planner], fill: Fill, order: Order, n_gpus: int, *, changing: bool) -> WhoRuns:
    """`planner`: for the rule that reserves. `changing`: the order changes while jobs run."""
    if fill.reserves:
        return Bounded(planner, order, fill, n_gpus)
    return Heads(order, n_gpus, holes=not fill.strict, changing=changing)


class Heads:
    """`none` and `holes`: the order alone decides, each time anew; but who can't be stopped runs on."""

    def __init__(self, order: Order, n_gpus: int, *, holes: bool, changing: bool) -> None:
        self._order = order
        self._n_gpus = n_gpus
        self._holes = holes
        self._changing = changing
        self._here: list[tuple[Key, Contender]] = []  # by what they are before they ran

    def arrive(self, here: Contender) -> None:
        insort(self._here, self._placed(here), key=FIRST)

    def ended(self, here: Contender) -> None:
        del self._here[bisect_left(self._here, self._placed(here)[0], key=FIRST)]

    def _placed(self, here: Contender) -> tuple[Key, Contender]:
        return self._order.key(here.job, None), here

    def choose(self, now: float) -> list[Contender]:
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

    def _in_order(self, now: float) -> Iterable[Contender]:
        here, key = [here for _, here in self._here], self._order.key
        return sorted(here, key=lambda one: key(one.job, one.progress(now))) if self._changing else here


class Bounded:
    """`easy`: nobody is stopped, and nobody ahead is delayed beyond what time limits promise.

    The planner itself, over one node of GPUs without names: its line, its walk and its EASY.
    """

    def __init__(self, planner: type[Planner], order: Order, fill: Fill, n_gpus: int) -> None:
        one = homogeneous(1, n_gpus, cpus=n_gpus)  # a job has one at least
        parts = Composition("who", order, AnyGpus(), NoPatience(), fill)
        known = Knowledge(neutral_scores(one, (ALIKE.cls,)), Apps({}, ALIKE))
        self._planner = planner(parts, one, known, facts=Circumstances(alone=True))
        self._here: dict[int, Contender] = {}
        self._running: dict[int, Contender] = {}

    def arrive(self, here: Contender) -> None:
        self._here[here.job.id] = here
        job = replace(
            here.job, shape=Shape(gpus=here.gpus), partitions=(), features="", excluded_nodes="", cpus_alloc=0
        )
        if here.held:
            self._running[job.id] = here
            self._planner.started(job, any_of(self._planner.floor, here.gpus), here.until)
        else:
            self._planner.arrive(job, ALIKE, here.progress(0.0))

    def ended(self, here: Contender) -> None:
        del self._here[here.job.id]
        self._running.pop(here.job.id, None)
        self._planner.ended(here.job.id)

    def choose(self, now: float) -> list[Contender]:
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
