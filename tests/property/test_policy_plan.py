"""Whole plans: nothing given twice, nobody ahead delayed, always the same answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pal_slurm.model import (
    Action,
    Cluster,
    Hint,
    Job,
    JobState,
    Lease,
    Placement,
    Reason,
    Request,
    Shape,
    Snapshot,
    Waits,
    predict,
)
from pal_slurm.policy import Plan, compose, plan
from tests.builders import NOW
from tests.property.worlds import World, askable, jobs, queues, snapshot, taken, worlds

PAL = compose("pal")


@st.composite
def busy(draw: st.DrawFn, world: World) -> tuple[World, tuple[Job, ...]]:
    """Some jobs run already, most of them with a limit."""
    running: list[Job] = []
    for number in range(100, 100 + draw(st.integers(0, 4))):
        job = draw(jobs(number=number))
        where = next(iter(askable(world, job)), None)
        if where is not None:
            world = World(taken(world.cluster, job, where), world.knowledge)
            end = draw(st.sampled_from((None, NOW + 300, NOW + 900, NOW + 4000)))
            limit = None if end is None else end - NOW
            running.append(
                replace(
                    job,
                    state=JobState.RUNNING,
                    nodes=where.nodes,
                    gpus=where.gpus,
                    end=end,
                    start=NOW - 50,
                    time_limit_s=limit,
                    lease=None,
                )
            )
    return world, tuple(running)


busy_worlds = worlds(max_nodes=3, max_width=3).flatmap(busy)


def starts(made: Plan, queue: Sequence[Job]) -> list[tuple[Job, Placement]]:
    by_id = {job.id: job for job in queue}
    return [(by_id[d.job], d.placement) for d in made.decisions if d.action is Action.START and d.placement]


@given(busy_worlds, queues())
@settings(max_examples=200, deadline=None)
def test_every_start_can_be_asked_for_when_those_before_it_have_taken_theirs(
    pair: tuple[World, tuple[Job, ...]], queue: tuple[Job, ...]
) -> None:
    world, running = pair
    made = plan(replace(snapshot(world, queue), running=running), world.knowledge, PAL)
    assert [d.job for d in made.decisions] == [job.id for job in queue]
    for job, decision in zip(queue, made.decisions, strict=True):
        if decision.action is Action.START:
            assert decision.placement in set(askable(world, job))
            assert decision.placement is not None
            world = World(taken(world.cluster, job, decision.placement), world.knowledge)
        elif decision.slurm_placement is not None:  # it goes plain, and takes the GPUs that Slurm gives it
            free = world.cluster.gpu_free.copy()
            for name, slots in zip(decision.slurm_placement.nodes, decision.slurm_placement.gpus, strict=True):
                free[world.cluster.node_index[name], list(slots)] = False
            world = World(replace(world.cluster, gpu_free=free), world.knowledge)


@given(busy_worlds, queues())
@settings(max_examples=100, deadline=None)
def test_the_same_snapshot_gives_the_same_plan_and_predictions_come_from_the_one_equation(
    pair: tuple[World, tuple[Job, ...]], queue: tuple[Job, ...]
) -> None:
    world, running = pair
    look = replace(snapshot(world, queue), running=running)
    made = plan(look, world.knowledge, PAL)
    assert made == plan(look, world.knowledge, PAL)
    for decision, job in zip(made.decisions, queue, strict=True):
        if decision.placement is not None:
            app = world.knowledge.apps.get(job.hint.app)
            assert decision.step_time == predict(app, decision.placement, world.cluster, world.knowledge.scores)
            assert decision.slurm_step_time is not None


def at(cluster: Cluster, holders: Sequence[tuple[Job, Placement, float]], when: float) -> Cluster:
    """The cluster when everybody who holds something has run to his limit."""
    free, cpus, mem = cluster.gpu_free.copy(), cluster.cpus_free.copy(), cluster.mem_free_mb.copy()
    for job, where, end in holders:
        if end <= when and job.shape is not None:
            for name, slots in zip(where.nodes, where.gpus, strict=True):
                row = cluster.node_index[name]
                free[row, list(slots)] = True
                cpus[row] += job.shape.cpus_on_each(len(where.nodes))
                mem[row] += job.shape.mem_on_each(len(where.nodes))
    return replace(cluster, gpu_free=free, cpus_free=cpus, mem_free_mb=mem)


def earliest(world: World, job: Job, holders: Sequence[tuple[Job, Placement, float]]) -> float:
    for when in sorted({NOW, *(end for _, _, end in holders if end < math.inf)}):
        if any(True for _ in askable(World(at(world.cluster, holders, when), world.knowledge), job)):
            return when
    return math.inf


@given(busy_worlds, queues())
@settings(max_examples=400, deadline=None)
def test_backfill_does_not_delay_the_first_job_that_waits(
    pair: tuple[World, tuple[Job, ...]], queue: tuple[Job, ...]
) -> None:
    """Each partition has its own head, so all jobs name the same one here. Where Slurm splits jobs, nobody knows."""
    world, running = pair
    queue = tuple(one for job in queue if even(one := replace(job, partitions=("gpu",)), world))
    assume(queue)
    made = plan(replace(snapshot(world, queue), running=running), world.knowledge, PAL)
    by_id = {job.id: job for job in queue}
    assume(all(d.action is not Action.PLAIN for d in made.decisions))
    holders = [(j, Placement(j.nodes, j.gpus, True), math.inf if j.end is None else j.end) for j in running]
    head = by_id[made.reserved[0].job] if made.reserved else None
    promised = math.inf
    for decision in made.decisions:
        job = by_id[decision.job]
        if job is head:
            promised = earliest(world, job, holders)
            assert promised == made.reserved[0].start
        if decision.placement is not None:
            end = math.inf if job.time_limit_s is None else NOW + job.time_limit_s
            world = World(taken(world.cluster, job, decision.placement), world.knowledge)
            holders.append((job, decision.placement, end))
    if head is not None and promised < math.inf:
        then = at(world.cluster, holders, promised)
        assert made.reserved[0].nodes in {p.nodes for p in askable(World(then, world.knowledge), head)}
    elif head is not None:
        assert made.reserved[0].cleared is not None
        before = {(n, s) for n, g in _gpus(made.reserved[0].cleared) for s in g}
        after = {(n, s) for _, where in starts_after(made, head, queue) for n, g in _gpus(where) for s in g}
        assert not before & after  # nobody may start on what is kept for a job whose start nobody knows


def even(job: Job, world: World) -> bool:
    """Whether it could be split evenly over the nodes that it may have, if all were idle."""
    c = world.cluster
    idle = replace(c, gpu_free=c.gpu_exists.copy(), cpus_free=c.cpus.copy(), mem_free_mb=c.mem_mb.copy())
    return any(True for _ in askable(World(idle, world.knowledge), job))


def _gpus(where: Placement) -> list[tuple[str, tuple[int, ...]]]:
    return list(zip(where.nodes, where.gpus, strict=True))


def starts_after(made: Plan, head: Job, queue: Sequence[Job]) -> list[tuple[Job, Placement]]:
    order = [d.job for d in made.decisions]
    return [(j, w) for j, w in starts(made, queue) if order.index(j.id) > order.index(head.id)]


@given(busy_worlds, queues())
@settings(max_examples=100, deadline=None)
def test_without_backfill_nobody_starts_behind_a_job_that_waits(
    pair: tuple[World, tuple[Job, ...]], queue: tuple[Job, ...]
) -> None:
    world, running = pair
    made = plan(replace(snapshot(world, queue), running=running), world.knowledge, compose("pal", fill="none"))
    seen_waiting = False
    for decision in made.decisions:
        assert not (seen_waiting and decision.action is Action.START)
        seen_waiting |= any(r.job == decision.job for r in made.reserved)


@given(worlds(max_nodes=3, max_width=4), st.integers(1, 6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_job_that_goes_plain_starts_although_smaller_ones_keep_coming(world: World, size: int, limits: bool) -> None:
    """Two ticks' worth of one-GPU jobs arrive in each tick; every job runs for five ticks."""
    ok = world.cluster.gpu_exists & world.cluster.node_ok[:, None]
    n = len(ok)
    cluster = replace(
        world.cluster, gpu_free=ok.copy(), cpus_free=np.full(n, 64), mem_free_mb=np.full(n, 10**6),
        cpus=np.full(n, 64), mem_mb=np.full(n, 10**6),
    )  # fmt: skip
    size = min(size, int(ok.sum()))
    if size == 0:
        return
    template = replace(
        Job(1, JobState.PENDING, NOW, "u", shape=None), gpu_job=True, eligible=NOW + 10**6, why=Waits.BEGIN,
        time_limit_s=300 if limits else None,
    )  # fmt: skip
    world = World(cluster, world.knowledge)
    started = _run(world, template, size)
    assert started is not None and started <= 12


def _run(world: World, template: Job, size: int) -> int | None:
    cluster, lease = world.cluster, Lease(NOW + 10**6, Request())
    one = Shape(gpus=1)
    big = replace(template, id=1, lease=lease, hint=Hint(off=True), shape=Shape(gpus=size, max_nodes=cluster.n_nodes))
    queue: list[Job] = []
    running: list[tuple[Job, int]] = []
    number = 10
    for tick in range(40):
        now = NOW + tick * 60
        running = [(job, end) for job, end in running if end > now]
        free = cluster.gpu_exists & cluster.node_ok[:, None]
        for job, _ in running:
            for name, slots in zip(job.nodes, job.gpus, strict=True):
                free[cluster.node_index[name], list(slots)] = False
        for _ in range(2 * int(free.size)):
            number += 1
            queue.append(replace(template, id=number, submit=now, lease=lease, shape=one))
        if tick == 2:
            queue.insert(0, big)
        look = Snapshot(now, replace(cluster, gpu_free=free), tuple(queue), tuple(job for job, _ in running))
        made = plan(look, world.knowledge, compose("pal", order="fifo"))
        by_id = {job.id: job for job in queue}
        for decision in made.decisions:
            if decision.job == big.id and decision.action is Action.PLAIN:
                assert decision.reason is Reason.WANTS_OFF
                return tick
            if decision.placement is not None:
                job, where = by_id[decision.job], decision.placement
                end = now + 300
                known = end if job.time_limit_s else None
                ran = replace(job, state=JobState.RUNNING, nodes=where.nodes, gpus=where.gpus, end=known, lease=None)
                running.append((ran, end))
                queue.remove(job)
    return None
