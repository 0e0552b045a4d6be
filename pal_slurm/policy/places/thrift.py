"""`thrift`: as `lv`, but a job pays for the GPUs that it leaves over on its nodes.

`lv` takes the fastest GPU wherever it is, half a percent faster on an empty node before the last one of a full node.
Each such choice is right for its job; together they leave no node whole, so later jobs of several GPUs wait longer or
are spread over nodes, which costs them far more (docs/results.md has the figures). So a node counts as slower by
`THRIFT` times the share of its GPUs that would stay free (for a job on several nodes, the mean of theirs), and a single
node by `OF_RACK` times the share of its rack's that are free now: a rack with room for several nodes is left to jobs
that need them. A GPU that is slower by more is still avoided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pal_slurm.model import App, Tier, step_time
from pal_slurm.policy.floor import Floor, Models
from pal_slurm.policy.needs import Area
from pal_slurm.policy.rackroom import dearer_racks
from pal_slurm.policy.ranking import Candidate, Ranking, Way
from pal_slurm.policy.seams import placements
from pal_slurm.policy.spans import thriftiest_gang
from pal_slurm.policy.tables import COST_MASK, RANK_SHIFT, Number

THRIFT = 0.15
OF_RACK = 0.1
EARMARKED = 1e6  # times as dear where the node is left to a job that waits for it (earmark.py)
TIE = 1e-9  # lets what `lv` breaks ties by decide where thrift sees none


def _price(level: Number, left: Number, tie: Number) -> Number:
    return level * (1.0 + THRIFT * left + TIE * tie)


@dataclass(frozen=True, slots=True)
class Thrift(Ranking):
    """The same search, by another price."""

    thrifty = True

    def _candidate(
        self, floor: Floor, app: App, area: Area, way: Way, base: float, models: Models, linked: int | None = None
    ) -> Candidate | None:
        nodes, gpus, cpus, mem_mb = way
        if nodes > 1:
            rows = floor.room(area.mask, gpus, cpus, mem_mb).nonzero()[0]
            if len(rows) < nodes:
                return None
            sets = floor.set_table(app.cls, gpus, rows, models, area.slots)
            levels = floor.merit(app.cls).levels
            comm = (self._comm(app, Tier.RACK), self._comm(app, Tier.CLUSTER))
            found = thriftiest_gang(floor, sets, rows, nodes, levels, comm, THRIFT)
            if found is None:
                return None
            gang, of_gang = found
            step = step_time(base, levels[gang.rank], self._comm(app, gang.tier))
            return Candidate(
                step, gang.tier, gang.cost, gang.rows, gang.slots, gang.exact, area.partition, base * of_gang
            )
        table = floor.node_table(app.cls, gpus, models, area.slots, linked)
        price = table.price(floor, _price)
        if not floor.cluster.one_rack:
            price = price * dearer_racks(floor, OF_RACK)
        if (earmark := floor.earmark) is not None and earmark.steers(nodes, gpus):
            price = np.where(earmark.mask, price * EARMARKED, price)
        elif floor.spared is not None:
            price = price * floor.spared_for(gpus)
        row = int(price.argmin())
        allowed = area.mask is None or area.mask[row]
        if not allowed or not floor.has_room(row, gpus, cpus, mem_mb):
            price = np.where(floor.room(area.mask, gpus, cpus, mem_mb), price, np.inf)
            row = int(price.argmin())
        if price[row] == np.inf:
            return None
        key = int(table.key[row])
        tier = Tier.GPU if gpus == 1 else Tier.NODE
        slots = table.slots(floor, row)
        inside = self._comm_inside(app, floor, row, slots)
        step = step_time(base, floor.merit(app.cls).levels[key >> RANK_SHIFT], inside)
        dear = step_time(base, float(price[row]), inside)
        return Candidate(step, tier, key & COST_MASK, (row,), (slots,), area.slots, area.partition, dear)


placements.register("thrift", lambda _: Thrift())
