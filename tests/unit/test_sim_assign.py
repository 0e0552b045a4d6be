"""Plans with a price on moves, and the placement that keeps nodes whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.published.reassign import Assigner, Claim
from pal_slurm.model import App, Job, Knowledge, Placement, Shape, homogeneous
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.seams import placements
from pal_slurm.scores import binned
from tests.builders import waiting

CLUSTER = homogeneous(2, 2)
APP_A = App("a", "A", {"gpu": 1.0}, (1.0, 1.0, 1.7, 1.7))
APP_B = App("b", "B", {"gpu": 1.0}, (1.0, 1.0, 1.7, 1.7))
HOUR = 3600.0


def assigner(slow: dict[int, float], cost: float = 30.0) -> Assigner:
    """Class A feels the slow GPUs, class B feels nothing."""
    score = np.ones((2, 2, 2))
    for gpu, value in slow.items():
        score[0].ravel()[gpu] = value
    return Assigner(CLUSTER, binned(("A", "B"), score), cost)


def test_the_sensitive_newcomer_gets_the_good_gpus() -> None:
    plan = assigner({0: 1.5, 1: 1.5}).plan([Claim(1, 2, APP_B, HOUR), Claim(2, 2, APP_A, HOUR)])
    assert plan == {1: (0, 1), 2: (2, 3)}


@pytest.mark.parametrize(("steps", "where"), [(HOUR, (1,)), (40.0, (0,))])
def test_a_job_moves_only_when_it_has_enough_left_to_gain(steps: float, where: tuple[int, ...]) -> None:
    plan = assigner({0: 1.5}).plan([Claim(1, 1, APP_A, steps, held=(0,))])
    assert (plan[1] == (0,)) == (where == (0,))


def test_jobs_of_two_classes_change_places_when_both_moves_together_pay() -> None:
    claims = [Claim(1, 2, APP_A, HOUR, held=(0, 1)), Claim(2, 2, APP_B, HOUR, held=(2, 3))]
    assert assigner({0: 1.5}).plan(claims) == {1: (2, 3), 2: (0, 1)}
    assert assigner({0: 1.5}, cost=2000.0).plan(claims) == {1: (0, 1), 2: (2, 3)}


def test_free_gpus_on_two_nodes_are_joined_for_a_job_of_two() -> None:
    claims = [Claim(1, 1, APP_B, HOUR, held=(0,)), Claim(2, 1, APP_B, HOUR, held=(2,)), Claim(3, 2, APP_B, HOUR)]
    plan = assigner({}).plan(claims)
    assert plan[3] in ((0, 1), (2, 3))
    assert sorted(gpu for gpus in plan.values() for gpu in gpus) == [0, 1, 2, 3]


def test_of_two_equal_jobs_the_elder_gets_the_better_gpus_however_little_it_has_left() -> None:
    claims = [Claim(1, 2, APP_A, HOUR, held=(0, 1)), Claim(2, 2, APP_A, 50 * HOUR, held=(2, 3))]
    assert assigner({0: 2.5}).plan(claims) == {1: (2, 3), 2: (0, 1)}


def test_who_may_not_be_moved_stays_and_nobody_else_comes_there() -> None:
    claims = [Claim(1, 2, APP_A, HOUR, held=(0, 1)), Claim(2, 2, APP_B, HOUR, held=(2, 3))]
    for stays in (0, 1):
        bound = [replace(claim, movable=i != stays) for i, claim in enumerate(claims)]
        assert assigner({0: 1.5}).plan(bound) == {1: (0, 1), 2: (2, 3)}
    alone = replace(claims[0], movable=False)
    assert assigner({0: 1.5}).plan([alone, Claim(3, 1, APP_A, HOUR)]) == {1: (0, 1), 3: (2,)}


def test_a_plan_of_nobody_is_empty() -> None:
    assert assigner({}).plan([]) == {}


def job(gpus: int) -> Job:
    return waiting(partitions=("gpu",), shape=Shape(max_nodes=gpus, gpus=gpus))


@pytest.mark.parametrize(
    ("score_of_last", "expected"),
    [
        (1.03, ("n1", (1,))),  # the last GPU of the first node is a little slower: the second node stays whole
        (1.3, ("n2", (0,))),  # it is so slow that the second node is broken
    ],
)
def test_thrift_breaks_a_whole_node_only_for_a_gpu_that_is_much_better(
    score_of_last: float, expected: tuple[str, tuple[int, ...]]
) -> None:
    floor = Floor(CLUSTER, Knowledge(binned(("A",), np.array([[[1.0, score_of_last], [1.0, 1.0]]]))))
    floor.take(job(1), Placement(("n1",), ((0,),), exact=True))
    placed = placements.get("thrift").place(job(1), APP_A, floor)
    assert placed is not None
    assert (placed.nodes[0], placed.gpus[0]) == expected
