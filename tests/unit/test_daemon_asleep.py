"""Nodes that are powered down: Slurm wakes them for a job, so pald keeps no job waiting for other ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pal_slurm.model import Cluster, Knowledge, homogeneous
from pal_slurm.nightly.nodes import idle
from pal_slurm.policy import compose, plan
from pal_slurm.sim.slurm.manners import Manners
from tests.builders import leased, scores, snapshot
from tests.moving import QUICK_MOVES, Wanted, there
from tests.simpald import House

Make = Callable[..., House]


def cluster(*asleep: bool) -> Cluster:
    return replace(homogeneous(len(asleep), 4), asleep=np.array(asleep))


def test_where_all_nodes_are_powered_down_a_job_starts_at_once(make_house: Make) -> None:
    house = make_house(count=2)
    for name in ("n1", "n2"):
        house.controller.set_node(name, "CLOUD+POWERED_DOWN")
    job = house.submit("--gres=gpu:1")
    house.live(15)
    assert house.state(job) == "RUNNING"


def test_one_that_finds_no_room_on_nodes_that_are_awake_wakes_another(make_house: Make) -> None:
    house = make_house(count=2)
    house.controller.set_node("n2", "CLOUD+POWERED_DOWN")
    jobs = [house.submit("--gres=gpu:4", "--time=600", runs=36_000) for _ in range(2)]
    house.live(15)
    assert [house.where(job) for job in jobs] == [{"n1": (0, 1, 2, 3)}, {"n2": (0, 1, 2, 3)}]


@pytest.mark.parametrize("gpus", [1, 4])
def test_better_gpus_wake_no_node_while_there_is_room(gpus: int) -> None:
    known = Knowledge(scores(A=[[1.0] * 4, [1.3] * 4]))
    for asleep, expected in (((True, False), "n2"), ((False, False), "n1")):
        made = plan(snapshot(leased(1, gpus), cluster=cluster(*asleep)), known, compose("pal", patience="none"))
        assert [d.placement.nodes for d in made.starts if d.placement] == [(expected,)]


def test_nobody_is_moved_to_a_node_that_has_to_be_powered_up_first(make_house: Make) -> None:
    house = make_house(count=2, **QUICK_MOVES)
    job = house.submit("--comment=pal:move", "--gres=gpu:2", runs=50_000.0, manners=Manners(3.0))
    house.live(5)
    house.controller.set_node("n2", "CLOUD+POWERED_DOWN")
    Wanted(house).move(job, there("n2", 1, 3))
    house.live(30)
    assert house.where(job) == {"n1": (0, 1)} and not any(update.asked.requeue for update in house.journal)
    house.controller.set_node("n2", "")
    Wanted(house).move(job, there("n2", 1, 3))
    house.live(30)
    assert house.where(job) == {"n2": (1, 3)}


def test_the_night_wakes_none() -> None:
    assert idle(snapshot(cluster=cluster(True, False, False)), 10) == {"n2", "n3"}
