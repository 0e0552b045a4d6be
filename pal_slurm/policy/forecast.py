"""When a better start can be had. In: an offer, what runs, how long it will probably run. Out: faster starts, and when.

Each is what the job would get if it waited for GPUs that are less slow, or closer together. What is kept for jobs ahead
is taken, and those who decline ahead of it have what comes free first. CPUs and memory come free with GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import App, FloatArray, IntArray, Tier, comm_of
from pal_slurm.policy.needs import Area, Need
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import Better

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner

LEVELS = 4  # of scores that are looked at
Column = tuple[FloatArray, bool]


def better_than(slowdown: float, need: Need, app: App, planner: Planner, ahead: int) -> tuple[Better, ...]:
    """Starts that are less slow than that. `ahead`: GPUs for which others wait, in the same way."""
    best = planner.best(need, app)
    if not math.isfinite(best) or best <= 0:
        return ()
    at = planner.horizon.expected()
    earmark = planner.floor.earmark
    if earmark is not None and any(earmark.steers(*way[:2]) for way in need.ways):
        at[earmark.mask] = math.inf  # what is left to others is no better start
    found: list[Better] = []
    speeds = planner.speeds.values(app.cls).reshape(at.shape)
    if planner.floor.spared is not None and need.ways:
        # A faster start there must be worth what it costs others.
        speeds = speeds * planner.floor.spared_for(need.ways[0][1])[:, None]
    for base, models in Ranking().bases(app, planner.floor):
        for level in _levels(planner, app, slowdown * best / base):
            usable = speeds <= level
            if models is not None:
                usable = usable & np.isin(planner.cluster.gpu_model, sorted(models))
            times = np.sort(np.where(usable, at, math.inf), axis=1)
            for tier, ready in _ready(times, at, need, planner, ahead):
                slow = base * level * float(comm_of(app, tier)) / best
                if slow < slowdown and ready < math.inf:
                    found.append(Better(max(slow, 1.0), max(ready - planner.now, 0.0), tier))
    return tuple(found)


def _levels(planner: Planner, app: App, below: float) -> list[float]:
    levels = sorted(level for level in planner.floor.merit(app.cls).levels if level < below)
    if len(levels) <= LEVELS:
        return levels
    return [levels[i] for i in np.linspace(0, len(levels) - 1, LEVELS).round().astype(int)]


def in_reach(times: FloatArray, at: FloatArray, area: Area, room: tuple[int, int], planner: Planner) -> FloatArray:
    """The same times, for a job that may run in this area only and needs so many CPUs and MB of each node.

    `at`: when each GPU is free. Where it is short of CPUs or memory now, it has nothing before a GPU is given back.
    """
    floor, (cpus, mem_mb) = planner.floor, room
    short = (floor.n_free > 0) & (floor.cpus_free < cpus)
    if mem_mb:
        short |= (floor.n_free > 0) & (floor.mem_free < mem_mb)
    if short.any():
        given_back = np.where(at > planner.now, at, math.inf).min(axis=1)
        times = np.where(short[:, None], np.maximum(times, given_back[:, None]), times)
    return times if area.mask is None else np.where(area.mask[:, None], times, math.inf)


def _ready(times: FloatArray, at: FloatArray, need: Need, planner: Planner, ahead: int) -> Iterator[tuple[Tier, float]]:
    for area in need.areas:
        for nodes, gpus, cpus, mem_mb in need.ways:
            if gpus > times.shape[1]:
                continue
            there = in_reach(times, at, area, (cpus, mem_mb), planner)
            ready = there[:, gpus - 1]
            if nodes == 1:
                yield (Tier.GPU if gpus == 1 else Tier.NODE), _after(ready, there, gpus, ahead)
            else:
                rack = planner.cluster.rack
                if not planner.cluster.one_rack:
                    yield Tier.CLUSTER, _together(ready, nodes, rack, Tier.CLUSTER)
                yield Tier.RACK, _together(ready, nodes, rack, Tier.RACK)


def _after(ready: FloatArray, times: FloatArray, gpus: int, ahead: int) -> float:
    """When a node is ready, once as many others have had theirs."""
    if gpus == 1:
        flat = times.reshape(-1)
        return float(np.partition(flat, min(ahead, len(flat) - 1))[min(ahead, len(flat) - 1)])
    n = min(ahead // gpus, len(ready) - 1)
    return float(np.partition(ready, n)[n])


def _together(ready: FloatArray, nodes: int, rack: IntArray, widest: Tier) -> float:
    """When so many nodes are ready, in one rack where they have to be."""
    if len(ready) < nodes:
        return math.inf
    if widest is Tier.CLUSTER:
        return float(np.partition(ready, nodes - 1)[nodes - 1])
    order = np.lexsort((ready, rack))
    racks, ready = rack[order], ready[order]
    last = np.arange(nodes - 1, len(ready))  # the node that completes so many of one rack
    same = racks[last] == racks[last - nodes + 1]
    return float(ready[last][same].min(initial=math.inf))
