"""`pools` as a part of the planner: who runs where on a cluster of two models."""

from dataclasses import replace

import pytest

from pal_slurm.model import Action, App, Knowledge, neutral_scores
from pal_slurm.policy import Circumstances, Plan, Planner, Progress
from pal_slurm.policy.composition import compose
from pal_slurm.policy.pools.housing import Housing
from pal_slurm.policy.seams import Contender
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.workload import Work

CLUSTER = parse_cluster("fast:1x2+slow:1x2")
KNOWS = Knowledge(neutral_scores(CLUSTER))
FUSSY = App("fussy", "A", {"fast": 1.0, "slow": 10.0})
EASY = App("easy", "A", {"fast": 1.0, "slow": 1.1})
ONLY_SLOW = App("old", "A", {"slow": 1.0})


def planner(*, movable: bool = True, moving: str = "pools") -> Planner:
    facts = Circumstances(alone=True, movable=lambda _: movable, move_cost_s=60.0)
    return Planner(compose("pal", order="fifo", moving=moving), CLUSTER, KNOWS, facts=facts)


def come(made: Planner, job: int, app: App, gpus: int = 1) -> None:
    work = Work(job, float(job), gpus, 1e6, app)
    made.arrive(work.as_job(), app, Progress())


def nodes(plan: Plan) -> dict[int, str]:
    decided = (*plan.moves, *plan.starts)
    return {d.job: d.placement.nodes[0] for d in decided if d.placement is not None}


FAST, SLOW = CLUSTER.node_names


def test_who_hardly_minds_takes_the_slow_gpus_when_all_come_at_once() -> None:
    made = planner()
    for job, app in enumerate((EASY, EASY, FUSSY, FUSSY)):
        come(made, job, app)
    assert nodes(made.act(0.0)) == {0: SLOW, 1: SLOW, 2: FAST, 3: FAST}


def test_a_running_job_makes_way_for_one_that_minds_more() -> None:
    made = planner()
    come(made, 1, EASY)
    come(made, 2, EASY)
    assert nodes(made.act(0.0)) == {1: FAST, 2: FAST}
    come(made, 3, FUSSY)
    plan = made.act(7200.0)
    assert nodes(plan)[3] == FAST
    (moved,) = plan.moves
    assert moved.action is Action.MOVE and nodes(plan)[moved.job] == SLOW


def test_who_may_not_be_moved_stays_and_the_other_waits_for_what_it_is_good_at() -> None:
    made = planner(movable=False)
    come(made, 1, EASY)
    come(made, 2, EASY)
    made.act(0.0)
    come(made, 3, FUSSY)
    plan = made.act(7200.0)
    assert plan.moves == () and nodes(plan) == {}
    made.ended(1)
    assert nodes(made.act(7300.0)) == {3: FAST}


def test_nobody_is_sent_where_his_application_has_no_speed() -> None:
    made = planner()
    for job in range(3):
        come(made, job, ONLY_SLOW)
    assert nodes(made.act(0.0)) == {0: SLOW, 1: SLOW}


def test_a_job_that_runs_when_the_planner_is_made_keeps_its_gpus() -> None:
    made = planner(movable=False)
    come(made, 1, EASY)
    (start,) = made.act(0.0).starts
    again = planner(movable=False)
    assert start.placement is not None
    work = Work(1, 1.0, 1, 1e6, EASY)
    again.started(work.as_job(), start.placement, 1e9)
    come(again, 2, FUSSY)
    plan = again.act(10.0)
    assert plan.moves == () and nodes(plan) == {2: FAST}


def test_scores_that_come_later_count_from_the_next_plan_on() -> None:
    facts = Circumstances(
        alone=True, movable=lambda _: True, move_cost_s=60.0, progress=lambda *_: Progress(rest_steps=1e6)
    )
    made = Planner(compose("pal", order="fifo", moving="pools"), CLUSTER, KNOWS, facts=facts)
    come(made, 1, EASY)
    made.act(0.0)
    slow_first = KNOWS.scores.score.copy()
    slow_first[:, 0, 0] = 3.0  # the GPU that it holds
    made.learned(Knowledge(replace(KNOWS.scores, score=slow_first, bins=(slow_first > 1).astype("int16"))))
    (moved,) = made.act(7200.0).moves
    assert moved.placement is not None and moved.placement.gpus != ((0,),)


@pytest.mark.parametrize("moving", ["pools", "pools-learned"])
@pytest.mark.parametrize("movable", [True, False])
def test_a_job_that_no_pool_can_hold_keeps_nobody_waiting(moving: str, movable: bool) -> None:
    made = planner(moving=moving, movable=movable)
    come(made, 1, EASY, gpus=4)
    for job in (2, 3, 4, 5):
        come(made, job, EASY)
    plan = made.act(0.0)
    assert {d.job for d in plan.starts} == {2, 3, 4, 5}
    assert [(d.job, d.action) for d in plan.decisions] == [(1, Action.WAIT)]


def test_a_job_whose_limit_is_over_stays_where_it_is() -> None:
    made = planner()
    made.arrive(Work(1, 0.0, 1, 1e6, EASY, limit_s=600.0).as_job(), EASY, Progress())
    assert nodes(made.act(0.0)) == {1: FAST}
    come(made, 2, FUSSY)
    come(made, 3, FUSSY)
    plan = made.act(601.0)
    assert plan.moves == () and nodes(plan)[2] == FAST


def test_a_job_that_was_moved_is_expected_to_go_on_for_as_long_as_it_has_run_in_all() -> None:
    """Else who has just been moved would be taken for one that ends soon."""
    housing = Housing(CLUSTER, KNOWS.scores, 60.0)
    here = Contender(Work(1, 0.0, 1, 1e6, EASY).as_job(), EASY, 1, lambda now: Progress(attained_s=now))
    for now, pool in ((0.0, 0), (5000.0, 1)):
        if here.held:
            housing.left(1)
        here.held = housing.put({1: (here, pool)}, now)[1]
    claim = housing.claim(here, (1.0, 0.9), 6000.0)
    assert (claim.pool, claim.began) == (1, 0.0)
