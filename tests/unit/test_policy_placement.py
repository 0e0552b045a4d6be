"""Ties, and who gets the scarce good GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.model import App, Cluster, Job, Knowledge, Placement, ScoreTable, Shape, homogeneous
from pal_slurm.policy import Floor, placements
from pal_slurm.policy.earmark import Earmark
from pal_slurm.policy.firstfit import first_fit
from tests.builders import scores, waiting

A, B, C = (App(c, c, comm=(1.0, 1.0, 1.1, 1.5)) for c in "ABC")
LV = placements.get("lv")


def table(**classes: list[list[float]]) -> Knowledge:
    return Knowledge(scores(**classes))


def job(gpus: int = 1, **shape: Any) -> Job:
    return waiting(shape=Shape(gpus=gpus, **shape))


def where(placement: Placement | None) -> dict[str, tuple[int, ...]]:
    assert placement is not None
    return dict(zip(placement.nodes, placement.gpus, strict=True))


def test_a_class_that_does_not_mind_takes_the_gpus_that_are_worst_for_the_one_that_does() -> None:
    floor = Floor(homogeneous(2, 2), table(A=[[0.9, 1.0], [1.3, 0.9]], C=[[1.0, 1.0], [1.0, 1.0]]))
    assert where(LV.place(job(), C, floor)) == {"n2": (0,)}
    assert where(LV.place(job(), A, floor)) == {"n1": (0,)}


def test_nobody_is_spared_for_a_class_that_does_not_wait() -> None:
    known = table(A=[[0.9, 1.0], [1.3, 0.9]], C=[[1.0, 1.0], [1.0, 1.0]])
    floor = Floor(homogeneous(2, 2), known, waiting=frozenset({"C"}))
    assert where(LV.place(job(), C, floor)) == {"n1": (0,)}


def test_one_broken_gpu_does_not_hide_the_other_differences() -> None:
    known = table(A=[[5.0, 0.9, 0.9, 1.1]], C=[[1.0] * 4])
    floor = Floor(homogeneous(1, 4), known)
    order = []
    for _ in range(4):
        spot = LV.place(job(), C, floor)
        assert spot is not None
        floor.take(job(), spot)
        order.append(spot.gpus[0][0])
    assert order == [0, 3, 1, 2]


def test_a_small_difference_in_worth_does_not_break_into_a_node() -> None:
    known = table(A=[[0.90, 1.3], [0.91, 0.91]], C=[[1.0, 1.0]] * 2)
    floor = Floor(homogeneous(2, 2), known)
    floor.take(job(), Placement(("n1",), ((1,),), True))
    assert where(LV.place(job(), C, floor)) == {"n1": (0,)}


def test_gpus_no_faster_than_the_worst_of_the_set_are_taken_before_better_ones() -> None:
    floor = Floor(homogeneous(1, 4), table(A=[[0.9, 1.0, 1.0, 1.0]]))
    floor.take(job(), Placement(("n1",), ((1,),), True))
    assert where(LV.place(job(2), A, floor)) == {"n1": (2, 3)}
    assert where(LV.place(job(3), A, floor)) == {"n1": (0, 2, 3)}


def test_among_equals_the_fullest_node_and_then_the_lowest_slot_is_taken() -> None:
    floor = Floor(homogeneous(3, 4), table(A=[[1.0] * 4] * 3))
    floor.take(job(), Placement(("n2",), ((1,),), True))
    floor.take(job(2), Placement(("n3",), ((0, 1),), True))
    assert where(LV.place(job(), A, floor)) == {"n3": (2,)}
    assert where(LV.place(job(3), A, floor)) == {"n2": (0, 2, 3)}
    assert where(LV.place(job(4), A, floor)) == {"n1": (0, 1, 2, 3)}


def test_scores_within_a_bin_make_no_difference() -> None:
    score = np.array([[[1.02, 1.00, 1.01, 1.03]]])
    known = Knowledge(ScoreTable(("A",), score, np.zeros(score.shape, dtype=np.int16), np.ones(score.shape, bool)))
    assert where(LV.place(job(2), A, Floor(homogeneous(1, 4), known))) == {"n1": (0, 1)}


def test_a_slow_gpu_costs_more_than_the_rack_but_less_than_the_cluster() -> None:
    """On one node 1.3, in a rack 1.0 * 1.1, across racks 1.0 * 1.5."""
    known = table(A=[[1.0, 1.3], [1.0, 1.3], [1.0, 1.3], [1.0, 1.3]])
    two = job(2, max_nodes=2)
    near, far = homogeneous(4, 2, rack_size=2), homogeneous(4, 2, rack_size=1)
    assert where(LV.place(two, A, Floor(near, known))) == {"n1": (0,), "n2": (0,)}
    assert where(LV.place(two, A, Floor(far, known))) == {"n1": (0, 1)}
    assert where(placements.get("pm-first").place(two, A, Floor(far, known))) == {"n1": (0,), "n2": (0,)}
    assert where(placements.get("packed").place(two, A, Floor(near, known))) == {"n1": (0, 1)}


def test_several_nodes_give_the_same_slots_and_else_only_the_nodes_are_named() -> None:
    floor = Floor(homogeneous(2, 2, rack_size=2), table(A=[[0.9, 1.2], [1.1, 1.0]]))
    pair = job(2, min_nodes=2, max_nodes=2)
    assert LV.place(pair, A, floor) == Placement(("n1", "n2"), ((0,), (0,)), True)
    floor.take(job(), Placement(("n1",), ((0,),), True))
    floor.take(job(), Placement(("n2",), ((1,),), True))
    assert LV.place(pair, A, floor) == Placement(("n1", "n2"), ((1,), (0,)), False)


def test_with_node_precision_the_lowest_free_devices_of_a_node_are_reckoned_with() -> None:
    cluster = replace(homogeneous(2, 3), slots=False)
    floor = Floor(cluster, table(A=[[1.5, 0.9, 0.9], [1.1, 1.1, 1.1]]))
    assert LV.place(job(), A, floor) == Placement(("n2",), ((0,),), False)
    floor.take(job(), Placement(("n1",), ((0,),), False))
    assert LV.place(job(), A, floor) == Placement(("n1",), ((1,),), False)


def test_a_faster_model_beats_a_better_score() -> None:
    cluster = replace(homogeneous(2, 1), models=("v100", "a100"), gpu_model=np.array([[0], [1]]))
    app = replace(A, base={"v100": 2.0, "a100": 1.0})
    assert where(LV.place(job(), app, Floor(cluster, table(A=[[0.9], [1.3]])))) == {"n2": (0,)}
    assert where(LV.place(job(), A, Floor(cluster, table(A=[[0.9], [1.3]])))) == {"n1": (0,)}


@pytest.mark.parametrize(
    ("cluster", "asked"),
    [
        (replace(homogeneous(2, 2), node_ok=np.array([False, True])), job()),
        (replace(homogeneous(2, 2), cpus_free=np.array([3, 4])), job(cpus=4)),
        (replace(homogeneous(2, 2), mem_free_mb=np.array([99, 100])), job(mem_per_node_mb=100)),
        (homogeneous(2, 2), replace(job(), excluded_nodes="n1")),
        (replace(homogeneous(2, 2), features=(frozenset(), frozenset({"x"}))), replace(job(), features="x|y")),
        (replace(homogeneous(2, 2), partitions={"p": np.array([False, True])}), replace(job(), partitions=("p",))),
    ],
)
def test_a_better_node_that_may_not_be_used_is_passed_over(cluster: Cluster, asked: Job) -> None:
    floor = Floor(cluster, table(A=[[0.8, 0.8], [1.2, 1.2]]))
    assert where(LV.place(asked, A, floor)) == {"n2": (0,)}
    assert where(first_fit(asked, floor)) == {"n2": (0,)}


def test_the_partition_with_the_better_gpus_is_chosen_and_named() -> None:
    halves = {"left": np.array([True, False]), "right": np.array([False, True])}
    floor = Floor(replace(homogeneous(2, 1), partitions=halves), table(A=[[1.2], [0.8]]))
    chosen = LV.place(replace(job(), partitions=("left", "right")), A, floor)
    assert chosen == Placement(("n2",), ((0,),), True, "right")
    assert LV.place(replace(job(), partitions=("left",)), A, floor) == Placement(("n1",), ((0,),), True)
    assert LV.place(replace(job(), partitions=("gone", "left")), A, floor) == Placement(("n1",), ((0,),), True, "left")


def test_among_equals_the_partition_named_first_is_taken() -> None:
    halves = {"left": np.array([True, False]), "right": np.array([False, True])}
    floor = Floor(replace(homogeneous(2, 1), partitions=halves), table(A=[[1.0], [1.0]]))
    chosen = LV.place(replace(job(), partitions=("right", "left")), A, floor)
    assert chosen == Placement(("n2",), ((0,),), True, "right")


def test_where_distance_costs_nothing_one_rack_is_still_preferred() -> None:
    cluster = replace(homogeneous(3, 1), rack=np.array([0, 1, 1]))
    app = replace(A, comm=(1.0, 1.0, 1.0, 1.0))
    floor = Floor(cluster, table(A=[[1.0], [1.0], [1.0]]))
    assert where(LV.place(job(2, min_nodes=2, max_nodes=2), app, floor)) == {"n2": (0,), "n3": (0,)}


@pytest.mark.parametrize("placement", ["lv", "thrift", "pm-first", "packed", "random(1)"])
def test_a_total_that_slurm_would_put_on_one_node_is_not_spread_for_faster_gpus(placement: str) -> None:
    halves = {"left": np.array([True, True, False]), "right": np.array([False, False, True])}
    cluster = replace(homogeneous(3, 2), partitions=halves)
    app = replace(A, comm=(1.0, 1.0, 1.0, 1.0))
    floor = Floor(cluster, table(A=[[0.8, 1.3], [0.8, 1.3], [1.3, 1.3]]))
    two, place = job(2, max_nodes=2, fewest=True), placements.get(placement).place
    assert len(where(place(two, app, floor))) == 1
    for name in ("n1", "n2"):
        floor.take(job(), Placement((name,), ((1,),), True))
    assert where(place(two, app, floor)) == {"n3": (0, 1)}
    assert where(place(replace(two, partitions=("left", "right")), app, floor)) == {"n3": (0, 1)}
    floor.take(job(), Placement(("n3",), ((1,),), True))
    assert where(place(replace(two, partitions=("left",)), app, floor)) == {"n1": (0,), "n2": (0,)}


@pytest.mark.parametrize("placement", ["lv", "thrift", "pm-first", "packed"])
@pytest.mark.parametrize(
    ("racks", "cpus", "taken", "earmarked", "gets"),
    [
        ((0, 0, 0), (3, 3, 3), (0, 0, 0), (), 1),
        ((0, 1, 2), (3, 3, 3), (0, 0, 0), (), 1),
        ((0, 0, 0), (3, 1, 1), (0, 3, 3), (), 1),  # two nodes would keep the third whole
        ((0, 0, 0), (3, 3, 3), (0, 0, 0), (0, 1, 2), 1),
        ((0, 0, 0), (3, 1, 1), (0, 3, 3), (0,), 1),
        ((0, 0, 0), (3, 1, 1), (4, 0, 3), (), 2),  # no node has CPUs for both tasks
    ],
)
def test_tasks_that_can_share_a_gpu_do_not_take_one_on_each_of_two_nodes_to_spare_others(
    placement: str,
    racks: tuple[int, ...],
    cpus: tuple[int, ...],
    taken: tuple[int, ...],
    earmarked: tuple[int, ...],
    gets: int,
) -> None:
    """`--gres=gpu:1 -n2`: Slurm gives two nodes, and so two GPUs, only where no single node has the CPUs."""
    cluster = replace(homogeneous(3, 4), rack=np.array(racks), cpus_free=np.array(cpus))
    floor = Floor(cluster, table(A=[[1.0, 1.02, 1.04, 1.06]] * 3, C=[[1.0] * 4] * 3))
    for name, number in zip(cluster.node_names, taken, strict=True):
        if number:
            floor.take(job(number, cpus=0), Placement((name,), (tuple(range(number)),), True))
    if earmarked:
        wide = floor.needs.of(waiting(shape=Shape(gpus_per_node=4, min_nodes=3, max_nodes=3)))
        assert wide is not None
        floor.earmarks(Earmark(wide, earmarked, np.isin(np.arange(3), earmarked), 4))
    asked = waiting(shape=Shape(gpus_per_node=1, cpus=2, max_nodes=2))
    for cls in "AC":
        app = App(cls, cls, comm=(1.0, 1.0, 1.0, 1.0))
        assert len(where(placements.get(placement).place(asked, app, floor))) == gets


@pytest.mark.parametrize("features", ["[a|b]", "a*2", "(a&b)|c", "a&b|c", "!a"])
def test_feature_expressions_that_a_mask_can_not_express_are_not_pinned(features: str) -> None:
    floor = Floor(homogeneous(1, 1), table(A=[[1.0]]))
    assert LV.place(replace(job(), features=features), A, floor) is None


def test_random_draws_the_same_for_the_same_seed_and_job() -> None:
    floor = Floor(homogeneous(50, 4), table(A=[[1.0] * 4] * 50))
    drawn = {placements.get(f"random({seed})").place(job(2), A, floor) for seed in (1, 1, 2, 3)}
    assert 2 <= len(drawn) <= 3


def test_wide_nodes_are_searched_too() -> None:
    """16 slots have 12,870 choices of 8; there neighbours are tried."""
    floor = Floor(homogeneous(2, 16), table(A=[[1.0] * 8 + [0.9] * 8] * 2))
    chosen = LV.place(job(16, min_nodes=2, max_nodes=2), A, floor)
    assert chosen == Placement(("n1", "n2"), (tuple(range(8, 16)),) * 2, True)


def test_taking_what_is_taken_and_giving_what_is_free_are_mistakes() -> None:
    floor = Floor(homogeneous(1, 2), table(A=[[1.0, 1.0]]))
    spot = Placement(("n1",), ((0,),), True)
    floor.take(job(), spot)
    with pytest.raises(ValueError, match="not all free"):
        floor.take(job(), spot)
    floor.give(job(), spot)
    with pytest.raises(ValueError, match="free already"):
        floor.give(job(), spot)


def test_first_fit_takes_the_lowest_nodes_and_splits_a_total_as_it_comes() -> None:
    floor = Floor(homogeneous(3, 4), table(A=[[1.0] * 4] * 3))
    assert where(first_fit(job(2), floor)) == {"n1": (0, 1)}
    assert where(first_fit(job(7, min_nodes=2, max_nodes=2), floor)) == {"n1": (0, 1, 2, 3), "n2": (0, 1, 2)}
    assert where(first_fit(job(4, min_nodes=2, max_nodes=2), floor)) == {"n1": (0, 1), "n2": (0, 1)}
    assert where(first_fit(replace(job(5, max_nodes=2), exclusive=True), floor)) == {
        "n1": (0, 1, 2, 3),
        "n2": (0, 1, 2, 3),
    }
    assert first_fit(job(13, max_nodes=3), floor) is None
