"""The least step time over every placement that can be asked for. In: job, app, floor. Out: Placement or None.

What can be asked for: any GPUs of one node; on several nodes the same slots on each, or whatever is lowest on each
(a pin without slots). `Ranking` looks at all of it: per partition, per way to split the job over nodes, per span
(one node, one rack, several racks) and, where GPU models differ in speed, per slowest model let in.

`lv`, `pm-first` and `packed` are this search with other eyes: without the cost of the span, without the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pal_slurm.model import App, IntArray, Job, Placement, Tier, base_of, comm_of, minds_links, step_time
from pal_slurm.policy.floor import Floor, Models
from pal_slurm.policy.needs import Area, Need
from pal_slurm.policy.spans import Gang, best_gang
from pal_slurm.policy.tables import COST_MASK, NEVER, RANK_SHIFT

Way = tuple[int, int, int, int]
EARMARKED = 1 << 60  # in a key: the node is left to another job


class Candidate(NamedTuple):
    """One placement and why it may be the best: compared by step time, then span, then what it costs others."""

    step: float
    tier: Tier
    cost: int  # summed worth and GPUs left over
    rows: tuple[int, ...]
    slots: tuple[tuple[int, ...], ...]
    exact: bool
    partition: str | None
    price: float  # what the choice goes by: the step time, and what the job leaves others

    @property
    def merit(self) -> tuple[float, int, int]:
        return (self.price, self.tier, self.cost)

    def better(self, other: Candidate) -> bool:
        """More GPUs than another placement takes are for speed only: they never spare a node for other jobs."""
        more = sum(map(len, self.slots)) > sum(map(len, other.slots))
        return self.merit < other.merit and (not more or self.step < other.step)


@dataclass(frozen=True, slots=True)
class Ranking:
    """`scores`: tell GPUs apart. `spans`: count the cost of distance."""

    thrifty = False  # whether a faster placement may be passed over for the sake of others

    scores: bool = True
    spans: bool = True
    heeds_earmark: bool = False  # leave earmarked nodes alone, where it fits elsewhere

    def place(self, job: Job, app: App, floor: Floor) -> Placement | None:
        need = floor.needs.of(job)
        return None if need is None else self.place_kind(need, app, floor)

    def place_kind(self, need: Need, app: App, floor: Floor) -> Placement | None:
        """The same for any job of that kind."""
        if need in floor.unfit:
            return None
        last = floor.found.get(need)
        if last is not None and last[0] == len(floor.changed) and last[1] is self and last[2] is app:
            return last[3]
        if floor.whole is not None:  # what is best of all is best of a part of it
            where = self.place_kind(need, app, floor.whole)
            if where is None or floor.may_have(need, where):
                return where
        best = self._best(need, app, floor)
        if best is None:
            floor.unfit.add(need)
            return None
        names = floor.cluster.node_names
        where = Placement(tuple(names[row] for row in best.rows), best.slots, best.exact, best.partition)
        floor.found[need] = (len(floor.changed), self, app, where)
        return where

    def _best(self, need: Need, app: App, floor: Floor) -> Candidate | None:
        best: Candidate | None = None
        fewest, most = need.shape.fewest, floor.most()
        ways = [way for way in need.ways if way[1] <= most]
        for area in need.areas:
            for base, models in self.bases(app, floor):
                for way in ways:
                    more = 0 if best is None or not fewest else way[0] - len(best.rows)
                    if more > 0 or (best and more == 0 and way[0] > 1 and best.price <= self._bound(app, floor, base)):
                        continue
                    found = self._near(floor, app, area, way, base, models)
                    if found is not None and (best is None or more < 0 or found.better(best)):
                        best = found
        return best

    def bases(self, app: App, floor: Floor) -> list[tuple[float, Models]]:
        """(seconds per step on the slowest model let in, models let in), fastest first.

        The equation takes the slowest base and the worst score of a set, whichever GPUs they belong to; so for each
        slowest model in turn the least worst score among the models up to it is sought, and the best of these wins.
        """
        names = floor.cluster.models
        if not self.scores or not app.base:
            return [(1.0, None)]
        speeds = [base_of(app, name) for name in names]
        steps = sorted(set(speeds))
        if len(steps) == 1:
            return [(steps[0], None)]
        return [(s, frozenset(i for i, speed in enumerate(speeds) if speed <= s)) for s in steps]

    def _bound(self, app: App, floor: Floor, base: float) -> float:
        """No set on several nodes is faster than this: the best bin there is, in one rack. Spares the long search."""
        levels = floor.merit(app.cls if self.scores else None).levels
        return step_time(base, levels[0], self._comm(app, Tier.RACK))

    def _near(self, floor: Floor, app: App, area: Area, way: Way, base: float, models: Models) -> Candidate | None:
        """The best on any GPUs, and where links count the best on those of each group that is linked directly."""
        any_ = self._candidate(floor, app, area, way, base, models)
        if way[0] > 1 or way[1] == 1 or any_ is None or not self.spans or not minds_links(app, floor.cluster):
            return any_
        groups = [one for one, most in enumerate(floor.cluster.linked_most) if most >= way[1]]
        near = (self._candidate(floor, app, area, way, base, models, one) for one in groups)
        return min((any_, *(c for c in near if c is not None)), key=lambda c: c.merit)

    def _candidate(
        self, floor: Floor, app: App, area: Area, way: Way, base: float, models: Models, linked: int | None = None
    ) -> Candidate | None:
        """`linked`: on one node only GPUs with this number in the cluster's `linked`."""
        nodes, gpus, cpus, mem_mb = way
        cls = app.cls if self.scores else None
        levels = floor.merit(cls).levels
        if nodes > 1:
            gang = self._gang(floor, app, area, way, models)
            if gang is None:
                return None
            step = step_time(base, levels[gang.rank], self._comm(app, gang.tier))
            return Candidate(step, gang.tier, gang.cost, gang.rows, gang.slots, gang.exact, area.partition, step)
        table = floor.node_table(cls, gpus, models, area.slots, linked)
        keys, earmark = table.key, floor.earmark if self.heeds_earmark else None
        if earmark is not None and earmark.steers(nodes, gpus):
            keys = np.where(earmark.mask & (keys != NEVER), keys | EARMARKED, keys)
        row = int(keys.argmin())
        if keys[row] == NEVER:
            return None
        allowed = area.mask is None or area.mask[row]
        if not allowed or not floor.has_room(row, gpus, cpus, mem_mb):
            keys = np.where(floor.room(area.mask, gpus, cpus, mem_mb), keys, NEVER)
            row = int(keys.argmin())
            if keys[row] == NEVER:
                return None
        key = int(table.key[row])
        tier = Tier.GPU if gpus == 1 else Tier.NODE
        slots = table.slots(floor, row)
        step = step_time(base, levels[key >> RANK_SHIFT], self._comm_inside(app, floor, row, slots))
        return Candidate(step, tier, key & COST_MASK, (row,), (slots,), area.slots, area.partition, step)

    def _gang(self, floor: Floor, app: App, area: Area, way: Way, models: Models) -> Gang | None:
        nodes, gpus, cpus, mem_mb = way
        rows: IntArray = floor.room(area.mask, gpus, cpus, mem_mb).nonzero()[0]
        if len(rows) < nodes:
            return None
        table = floor.set_table(app.cls if self.scores else None, gpus, rows, models, area.slots)
        levels = floor.merit(app.cls if self.scores else None).levels
        comm = (self._comm(app, Tier.RACK), self._comm(app, Tier.CLUSTER))
        return best_gang(floor, table, rows, nodes, levels, comm)

    def _comm_inside(self, app: App, floor: Floor, row: int, slots: tuple[int, ...]) -> float:
        """Of GPUs of one node."""
        if self.spans and len(slots) > 1 and minds_links(app, floor.cluster):
            return self._comm(app, Tier.NODE) if floor.cluster.linked_within(row, slots) else app.unlinked
        return self._comm(app, Tier.GPU if len(slots) == 1 else Tier.NODE)

    def _comm(self, app: App, tier: Tier) -> float:
        return float(comm_of(app, tier)) if self.spans else 1.0
