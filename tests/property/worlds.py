"""Small clusters, queues and a slow, plain search over every placement that can be asked for.

The search shares nothing with the planner but the nouns and the speed equation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st

from pal_slurm.model import (
    App,
    Apps,
    Cluster,
    Hint,
    Job,
    Knowledge,
    Placement,
    Reservation,
    ScoreTable,
    Shape,
    Snapshot,
    predict,
)
from tests.builders import NOW, leased

CLASSES = ("A", "B")
FEATURES = ("big", "fast")


@dataclass(frozen=True)
class World:
    cluster: Cluster
    knowledge: Knowledge


@st.composite
def worlds(draw: st.DrawFn, max_nodes: int = 4, max_width: int = 4) -> World:
    n = draw(st.integers(1, max_nodes))
    width = draw(st.integers(1, max_width))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    exists = rng.random((n, width)) < draw(st.sampled_from((0.8, 1.0)))
    models = draw(st.integers(1, 2))
    cluster = Cluster(
        node_names=tuple(f"n{i + 1}" for i in range(n)),
        node_ok=rng.random(n) < draw(st.sampled_from((0.8, 1.0))),
        rack=rng.integers(0, draw(st.integers(1, 3)), n),
        cpus=np.full(n, 8),
        cpus_free=rng.integers(2, 9, n),
        mem_mb=np.full(n, 800),
        mem_free_mb=rng.integers(200, 801, n),
        features=tuple(frozenset(f for f in FEATURES if rng.random() < 0.7) for _ in range(n)),
        partitions={"gpu": np.ones(n, dtype=np.bool_), "few": rng.random(n) < 0.6},
        gpu_exists=exists,
        gpu_free=exists & (rng.random((n, width)) < draw(st.sampled_from((0.5, 0.8, 1.0)))),
        gpu_model=rng.integers(0, models, (n, width)),
        models=("v100", "a100")[:models],
        slots=draw(st.booleans()),
        linked=rng.integers(0, draw(st.integers(1, 3)), (n, width)) if draw(st.booleans()) else None,
    )
    # Eighths, so that the mean of a bin is the score of each of its members to the last bit.
    bins = rng.integers(0, draw(st.integers(1, 4)), (2, n, width))
    table = ScoreTable(CLASSES, 0.75 + bins / 8, bins, np.ones((2, n, width), dtype=np.bool_))
    return World(cluster, Knowledge(table, draw(apps())))


@st.composite
def apps(draw: st.DrawFn) -> Apps:
    known = {}
    for cls in CLASSES:
        comm = sorted(draw(st.sampled_from((1.0, 1.125, 1.5, 2.0))) for _ in range(4))
        base = {"v100": draw(st.sampled_from((1.0, 2.0))), "a100": draw(st.sampled_from((0.5, 1.0, 1.25)))}
        unlinked = draw(st.sampled_from((1.0, 1.0, 1.25, 1.75)))
        known[cls] = App(cls, cls, base if draw(st.booleans()) else {}, (comm[0], comm[1], comm[2], comm[3]), unlinked)
    return Apps(known, known["A"])


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    least = draw(st.integers(1, 3))
    most = draw(st.integers(least, 4))
    per_node = draw(st.booleans())
    return Shape(
        min_nodes=least,
        max_nodes=most,
        gpus_per_node=draw(st.integers(1, 3)) if per_node else None,
        gpus=None if per_node else draw(st.integers(least, 8)),
        cpus_per_node=draw(st.integers(0, 3)),
        cpus=draw(st.integers(1, 6)),
        mem_per_node_mb=draw(st.sampled_from((0, 100, 400))),
    )


@st.composite
def jobs(draw: st.DrawFn, number: int = 1) -> Job:
    return leased(
        number,
        submit=NOW - 1000 + number,
        partitions=draw(st.sampled_from((("gpu",), ("few",), ("gpu", "few"), ("few", "gpu"), ()))),
        time_limit_s=draw(st.sampled_from((None, 600, 3600, 7200))),
        shape=draw(shapes()),
        features=draw(st.sampled_from(("", "", "", "big", "big&fast", "big|fast"))),
        excluded_nodes=draw(st.sampled_from(("", "", "", "n1", "n[2-3]"))),
        hint=Hint(draw(st.sampled_from(CLASSES))),
    )


@st.composite
def gangs(draw: st.DrawFn) -> tuple[World, Job]:
    """Jobs on two or three nodes of a cluster where much is free."""
    world = draw(worlds(max_nodes=6, max_width=4))
    cluster = world.cluster
    free = cluster.gpu_exists & (np.random.default_rng(draw(st.integers(0, 999))).random(cluster.gpu_free.shape) < 0.9)
    world = World(replace(cluster, gpu_free=free, cpus_free=cluster.cpus, mem_free_mb=cluster.mem_mb), world.knowledge)
    nodes, each = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    shape = Shape(nodes, nodes, gpus_per_node=each)
    if draw(st.booleans()):
        shape = Shape(1, 4, gpus=nodes * each)
    return world, replace(draw(jobs()), shape=shape, partitions=("gpu",), features="")


@st.composite
def by_links(draw: st.DrawFn) -> tuple[World, Job]:
    """Jobs on one node of a cluster where links differ, and cost as much as scores do."""
    world = draw(worlds(max_nodes=4, max_width=6))
    cluster, rng = world.cluster, np.random.default_rng(draw(st.integers(0, 999)))
    free = cluster.gpu_exists & (rng.random(cluster.gpu_free.shape) < 0.9)
    linked = rng.integers(0, draw(st.integers(2, 3)), free.shape)
    cluster = replace(cluster, gpu_free=free, cpus_free=cluster.cpus, mem_free_mb=cluster.mem_mb, linked=linked)
    known = {name: replace(app, comm=(1.0, 1.0, 2.0, 2.0)) for name, app in world.knowledge.apps.known.items()}
    known = {name: replace(app, unlinked=draw(st.sampled_from((1.125, 1.25, 1.75)))) for name, app in known.items()}
    world = World(cluster, replace(world.knowledge, apps=Apps(known, known["A"])))
    shape = Shape(1, 1, gpus_per_node=draw(st.integers(2, 4)))
    return world, replace(draw(jobs()), shape=shape, partitions=("gpu",), features="")


@st.composite
def queues(draw: st.DrawFn, most: int = 7) -> tuple[Job, ...]:
    return tuple(draw(jobs(number=i + 1)) for i in range(draw(st.integers(1, most))))


def reservations() -> st.SearchStrategy[tuple[Reservation, ...]]:
    one = st.builds(
        Reservation,
        name=st.sampled_from(("maint", "class")),
        nodes=st.sampled_from((frozenset({"n1"}), frozenset({"n2", "n4"}))),
        start=st.sampled_from((NOW - 10, NOW + 1000)),
        end=st.just(NOW + 5000),
    )
    return st.lists(one, max_size=1).map(tuple)


def askable(world: World, job: Job, windows: Sequence[Reservation] = ()) -> Iterator[Placement]:
    """Every placement that the job may be given now and that Slurm can be asked for."""
    cluster, shape = world.cluster, job.shape
    if shape is None:
        return
    for partition in job.partitions or (None,):
        named = partition if len(job.partitions) > 1 else None
        nodes = [r for r in range(cluster.n_nodes) if node_allowed(cluster, job, r, partition, windows)]
        for m in range(shape.min_nodes, min(shape.max_nodes, len(nodes)) + 1):
            gpus = shape.gpus_per_node or 0
            if shape.gpus is not None:
                if shape.gpus % m:
                    continue
                gpus = shape.gpus // m
            cpus = max(shape.cpus_per_node, math.ceil(shape.cpus / m))
            roomy = [r for r in nodes if cluster.cpus_free[r] >= cpus and cluster.mem_free_mb[r] >= memory(shape, m)]
            for rows in combinations(roomy, m):
                # Slurm may be left the choice of those that serve all of them.
                every = all(node_allowed(cluster, job, r, p, windows) for p in job.partitions for r in rows)
                choices = {named, ",".join(job.partitions) if named and every else named}
                for (slots, exact), name in product(slot_choices(cluster, rows, gpus), choices):
                    yield Placement(tuple(cluster.node_names[r] for r in rows), slots, exact, name)


def memory(shape: Shape, nodes: int) -> int:
    cpus = max(shape.cpus_per_node, math.ceil(shape.cpus / nodes))
    return max(shape.mem_per_node_mb, shape.mem_per_cpu_mb * cpus)


def slot_choices(
    cluster: Cluster, rows: Sequence[int], gpus: int
) -> Iterator[tuple[tuple[tuple[int, ...], ...], bool]]:
    free = [[s for s in range(cluster.width) if cluster.gpu_free[r, s]] for r in rows]
    if any(len(f) < gpus for f in free):
        return
    if cluster.slots:
        for chosen in combinations(range(cluster.width), gpus):
            if all(set(chosen) <= set(f) for f in free):
                yield (chosen,) * len(rows), True
    if not cluster.slots or len(rows) > 1:
        yield tuple(tuple(f[:gpus]) for f in free), False


def node_allowed(cluster: Cluster, job: Job, row: int, partition: str | None, windows: Sequence[Reservation]) -> bool:
    name = cluster.node_names[row]
    if not cluster.node_ok[row] or (partition is not None and not cluster.partitions[partition][row]):
        return False
    has = cluster.features[row]
    wanted = {
        "": True,
        "big": "big" in has,
        "big&fast": {"big", "fast"} <= has,
        "big|fast": bool({"big", "fast"} & has),
    }
    if not wanted[job.features] or name in {"": [], "n1": ["n1"], "n[2-3]": ["n2", "n3"]}[job.excluded_nodes]:
        return False
    for window in windows:
        meets = window.end > NOW and (job.time_limit_s is None or NOW + job.time_limit_s > window.start)
        if meets and name in window.nodes:
            return False
    return True


def least_step(world: World, job: Job, windows: Sequence[Reservation] = ()) -> float | None:
    app = world.knowledge.apps.get(job.hint.app)
    every = (predict(app, p, world.cluster, world.knowledge.scores) for p in askable(world, job, windows))
    return min(every, default=None)


def taken(cluster: Cluster, job: Job, placement: Placement) -> Cluster:
    """The cluster with that job on it."""
    shape = job.shape
    assert shape is not None
    free, cpus, mem = cluster.gpu_free.copy(), cluster.cpus_free.copy(), cluster.mem_free_mb.copy()
    nodes = len(placement.nodes)
    for name, slots in zip(placement.nodes, placement.gpus, strict=True):
        row = cluster.node_index[name]
        assert all(free[row, s] for s in slots)
        free[row, list(slots)] = False
        cpus[row] -= shape.cpus_on_each(nodes)
        mem[row] -= memory(shape, nodes)
        assert cpus[row] >= 0 and mem[row] >= 0
    return replace(cluster, gpu_free=free, cpus_free=cpus, mem_free_mb=mem)


def snapshot(world: World, pending: Sequence[Job], windows: Sequence[Reservation] = ()) -> Snapshot:
    return Snapshot(NOW, world.cluster, tuple(pending), reservations=tuple(windows))
