"""When a narrower span has room. In: an offer, what runs and its limits. Out: the spans that cost less, and when.

By the limits of what runs and what is kept for jobs ahead; GPUs alone decide. Limits are generous: the times are those
of the limits, shortened to the share of them that jobs really use.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import App, FloatArray, IntArray, Tier, comm_of
from pal_slurm.policy.horizon import Horizon
from pal_slurm.policy.needs import Need
from pal_slurm.policy.seams import Better, Offer

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner


def better_than(offer: Offer, need: Need, app: App, planner: Planner) -> tuple[Better, ...]:
    found = []
    least = float(comm_of(app, need.narrowest))
    for tier in map(Tier, range(need.narrowest, offer.tier)):
        cost = float(comm_of(app, tier)) / least
        if cost < offer.span_cost:
            in_s = (room(planner.horizon, need, tier) - planner.now) * (planner.facts.of_limit or 1.0)
            found.append(Better(tier, cost, max(in_s, 0.0)))
    return tuple(found)


def room(horizon: Horizon, need: Need, widest: Tier) -> float:
    """When such a job first fits within that span; infinity: within no known limit."""
    by_gpus: FloatArray = np.sort(horizon.times(), axis=1)
    soonest = math.inf
    for area in need.areas:
        for nodes, gpus, _, _ in need.ways:
            if nodes > 1 and widest <= Tier.NODE:
                continue
            ready = by_gpus[:, gpus - 1]
            if area.mask is not None:
                ready = np.where(area.mask, ready, math.inf)
            soonest = min(soonest, _together(ready, nodes, horizon.floor.cluster.rack, widest))
    return soonest


def _together(ready: FloatArray, nodes: int, rack: IntArray, widest: Tier) -> float:
    """When so many nodes are ready, in one rack where they have to be."""
    if len(ready) < nodes:
        return math.inf
    if nodes == 1 or widest is Tier.CLUSTER:
        return float(np.partition(ready, nodes - 1)[nodes - 1])
    order = np.lexsort((ready, rack))
    racks, ready = rack[order], ready[order]
    last = np.arange(nodes - 1, len(ready))  # the node that completes so many of one rack
    same = racks[last] == racks[last - nodes + 1]
    return float(ready[last][same].min(initial=math.inf))
