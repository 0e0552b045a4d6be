"""lv against a search over every placement that can be asked for; what all placements promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pal_slurm.model import Job, Placement, Reservation, predict
from pal_slurm.policy import Floor, placements
from tests.builders import NOW
from tests.property.worlds import World, askable, by_links, gangs, jobs, least_step, queues, reservations, worlds

NAMES = ("lv", "thrift", "pm-first", "packed", "random(3)")


def floor_of(world: World, windows: tuple[Reservation, ...] = ()) -> Floor:
    return Floor(world.cluster, world.knowledge, now=NOW, reservations=windows)


@given(worlds(), jobs(), reservations())
@settings(max_examples=400, deadline=None)
def test_lv_reaches_the_least_step_time_over_every_placement_that_can_be_asked_for(
    world: World, job: Job, windows: tuple[Reservation, ...]
) -> None:
    app = world.knowledge.apps.get(job.hint.app)
    chosen = placements.get("lv").place(job, app, floor_of(world, windows))
    least = least_step(world, job, windows)
    if chosen is None:
        assert least is None
    else:
        assert predict(app, chosen, world.cluster, world.knowledge.scores) == least


@given(gangs())
@settings(max_examples=300, deadline=None)
def test_lv_reaches_the_least_step_time_on_several_nodes_too(pair: tuple[World, Job]) -> None:
    world, job = pair
    app = world.knowledge.apps.get(job.hint.app)
    chosen = placements.get("lv").place(job, app, floor_of(world))
    assert (chosen is None) == (least_step(world, job) is None)
    if chosen is not None:
        assert chosen in set(askable(world, job))
        assert predict(app, chosen, world.cluster, world.knowledge.scores) == least_step(world, job)


@given(by_links())
@settings(max_examples=300, deadline=None)
def test_lv_reaches_the_least_step_time_where_gpus_of_a_node_are_linked_or_not(pair: tuple[World, Job]) -> None:
    world, job = pair
    app = world.knowledge.apps.get(job.hint.app)
    least = least_step(world, job)
    for name in ("lv", "thrift"):
        chosen = placements.get(name).place(job, app, floor_of(world))
        assert (chosen is None) == (least is None)
        if chosen is not None:
            assert chosen in set(askable(world, job))
            step = predict(app, chosen, world.cluster, world.knowledge.scores)
            assert step == least if name == "lv" else step >= (least or 0.0)


@given(by_links())
@settings(max_examples=100, deadline=None)
def test_links_change_nothing_for_applications_to_which_they_cost_nothing(pair: tuple[World, Job]) -> None:
    world, job = pair
    app = replace(world.knowledge.apps.get(job.hint.app), unlinked=1.0)
    without = World(replace(world.cluster, linked=None), world.knowledge)
    for name in NAMES:
        placer = placements.get(name)
        assert placer.place(job, app, floor_of(world)) == placer.place(job, app, floor_of(without))


@pytest.mark.parametrize("name", NAMES)
@given(world=worlds(), job=jobs(), windows=reservations())
@settings(max_examples=100, deadline=None)
def test_every_placement_is_one_that_can_be_asked_for_and_none_is_missed(
    name: str, world: World, job: Job, windows: tuple[Reservation, ...]
) -> None:
    chosen = placements.get(name).place(job, world.knowledge.apps.get(job.hint.app), floor_of(world, windows))
    every = set(askable(world, job, windows))
    assert chosen in every if every else chosen is None


@given(worlds(), jobs())
@settings(max_examples=150, deadline=None)
def test_pm_first_gets_the_least_worst_score_where_gpus_are_of_one_model(world: World, job: Job) -> None:
    app = replace(world.knowledge.apps.get(job.hint.app), base={}, comm=(1.0, 1.0, 1.0, 1.0), unlinked=1.0)
    chosen = placements.get("pm-first").place(job, app, floor_of(world))
    scores = world.knowledge.scores
    if chosen is not None:
        worst = min(predict(app, p, world.cluster, scores) for p in askable(world, job))
        assert predict(app, chosen, world.cluster, scores) == worst


@pytest.mark.parametrize("name", NAMES)
@given(world=worlds(), queue=queues(), steps=st.lists(st.integers(0, 6), max_size=14))
@settings(max_examples=60, deadline=None)
def test_a_floor_that_lived_through_takes_and_gives_places_as_a_fresh_one_would(
    name: str, world: World, queue: tuple[Job, ...], steps: list[int]
) -> None:
    placer, floor = placements.get(name), floor_of(world)
    on: dict[int, tuple[Job, Placement]] = {}
    for step in steps:
        job = queue[step % len(queue)]
        if job.id in on:
            floor.give(*on.pop(job.id))
            continue
        app = world.knowledge.apps.get(job.hint.app)
        fresh = floor_of(world)
        for pair in on.values():
            fresh.take(*pair)
        chosen = placer.place(job, app, floor)
        assert chosen == placer.place(job, app, fresh)
        assert chosen == placer.place(job, app, floor)  # found again
        if chosen is not None:
            floor.take(job, chosen)
            on[job.id] = (job, chosen)
    for pair in on.values():
        floor.give(*pair)
    assert np.array_equal(floor.free, floor_of(world).free)
    assert np.array_equal(floor.cpus_free, world.cluster.cpus_free)
    assert np.array_equal(floor.mem_free, world.cluster.mem_free_mb)
