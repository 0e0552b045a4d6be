"""`earlier-finish`: a start is declined only while the job itself would be done sooner by that."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.model import (
    Action,
    Cluster,
    Job,
    Knowledge,
    Placement,
    Reason,
    RunTimes,
    ScoreTable,
    Shape,
    Snapshot,
    Tier,
    Waits,
    homogeneous,
)
from pal_slurm.policy import Circumstances, compose, plan
from pal_slurm.policy.memory import Memory, memory_of
from pal_slurm.policy.seams import Better, Offer, Promised, Wait, patiences
from tests.builders import leased, running

NAN = '{"version": 1, "begun": 0, "declining": [[1, 2, NaN]], "heads": []}'
RULE = patiences.get("earlier-finish")
ONE = Shape(gpus_per_node=1)
JOB = leased(until=10_000, submit=0, partitions=("gpu",), shape=ONE, time_limit_s=3600, why=Waits.UNSEEN)


def known(cluster: Cluster, score: float) -> Knowledge:
    """All GPUs but the first are slower than that."""
    scores = np.full((1, cluster.n_nodes, cluster.width), score)
    scores[0, 0, 0] = 1.0
    bins = (scores > 1.0).astype(np.int16)
    return Knowledge(ScoreTable(("A",), scores, bins, np.ones_like(scores, dtype=bool)))


def ran(seconds: float, times: int = 100) -> RunTimes:
    """Jobs of that limit have run for so long, so many of them."""
    told = RunTimes()
    for _ in range(times):
        told.ended("u", "", "", 3600.0, seconds)
    return told


def beside(end: int, facts: Circumstances, free: tuple[bool, bool] = (False, True), limit_s: int = 3600) -> Snapshot:
    """The good GPU of one node is held until then at latest; JOB waits."""
    cluster = replace(homogeneous(1, 2), gpu_free=np.array([free]))
    holder = running(9, {"n1": (0,)}, end, user="u", start=end - 3600, time_limit_s=3600)
    return Snapshot(100.0, cluster, (replace(JOB, user="u", time_limit_s=limit_s),), (holder,))


def test_it_waits_for_what_is_over_first_and_only_if_that_is_sooner_than_here() -> None:
    near, far = Better(1.0, 100.0, Tier.GPU), Better(1.0, 2000.0, Tier.GPU)
    here = Offer(Tier.GPU, 1.5, 0.0, run_s=1000.0)
    for offer, wait in (
        (here, None),  # nobody can tell when anything better comes
        (here._replace(better=(far,)), None),  # it would be done later
        (here._replace(better=(far, near)), Wait(Reason.BETTER_GPUS_SOON, 100.0)),
        (here._replace(better=(near,), run_s=190.0), None),  # a short job gains less than the wait
        (here._replace(better=(near,), declined_s=900.0), Wait(Reason.BETTER_GPUS_SOON, 1000.0)),
        (here._replace(better=(near,), declined_s=1000.0), None),  # twice what it can gain
        (here._replace(better=(Better(1.499, 0.0, Tier.GPU),)), None),  # less than our own edit costs
        (here._replace(tier=Tier.RACK, better=(near._replace(tier=Tier.NODE),)), Wait(Reason.BETTER_SPAN_SOON, 100.0)),
    ):
        assert RULE.waits(JOB, offer) == wait


@given(
    st.floats(1.0, 10.0), st.floats(0.0, 1e6), st.floats(0.0, 1e6),
    st.lists(st.tuples(st.floats(1.0, 10.0), st.floats(0.0, 1e6)), max_size=4),
)  # fmt: skip
def test_a_wait_pays_for_the_job_that_waits(
    slowdown: float, run_s: float, declined_s: float, better: list[tuple[float, float]]
) -> None:
    options = tuple(Better(slow, in_s, Tier.GPU) for slow, in_s in better)
    wait = RULE.waits(JOB, Offer(Tier.GPU, slowdown, 0.0, declined_s, run_s=run_s, better=options))
    if wait is not None:
        assert min(in_s + run_s * slow for slow, in_s in better) < run_s * slowdown
        assert declined_s < wait.most_s <= 2 * run_s * (slowdown - 1.0)


def test_a_plan_waits_for_the_good_gpu_where_it_comes_soon_enough() -> None:
    facts = Circumstances(run_times=ran(1800.0))  # 900 s more on the slow GPU
    for end, free, action in (
        (600 + 1800, (False, True), Action.WAIT),  # it will have run for half its hour in 500 s
        (1300 + 1800, (False, True), Action.START),  # in 1,200 s
        (1300 + 1800, (True, True), Action.START),  # a better one is free right now
    ):
        snapshot = beside(end, facts, free)
        if free[0]:
            snapshot = replace(snapshot, running=())
        made = plan(snapshot, known(snapshot.cluster, 1.5), compose("pal"), facts)
        assert [d.action for d in made.decisions] == [action]
        if free[0]:
            assert made.starts[0].placement == Placement(("n1",), ((0,),), True)


def test_short_jobs_and_those_of_which_nothing_is_known_start_at_once() -> None:
    for times in (RunTimes(), ran(2.0)):
        facts = Circumstances(run_times=times)
        snapshot = beside(110, facts)
        assert plan(snapshot, known(snapshot.cluster, 1.5), compose("pal"), facts).decisions[0].action is Action.START


def test_the_gpu_that_one_job_declines_goes_to_one_that_does_not_mind() -> None:
    facts = Circumstances(run_times=ran(1800.0))
    snapshot = beside(600 + 1800, facts)
    short = replace(snapshot.pending[0], id=2, time_limit_s=60)
    made = plan(
        replace(snapshot, pending=(*snapshot.pending, short)), known(snapshot.cluster, 1.5), compose("pal"), facts
    )
    assert [(d.job, d.action, d.reason) for d in made.decisions] == [
        (1, Action.WAIT, Reason.BETTER_GPUS_SOON),
        (2, Action.START, Reason.BEST_SPAN),
    ]


def test_what_a_job_declines_is_bounded_whatever_is_forecast_and_however_often_pald_starts_anew() -> None:
    """The good GPU is always said to come free in five minutes, and never does."""
    for kept in (True, False):
        facts, memory = Circumstances(run_times=ran(1800.0)), Memory(begun=0.0)
        actions = {}
        for now in range(100, 3000, 100):
            snapshot = replace(beside(now + 300 + 1800, facts), taken=float(now))
            made = plan(snapshot, known(snapshot.cluster, 1.5), compose("pal"), facts, memory if kept else Memory())
            memory = memory_of(json.loads(json.dumps(made.memory.plain())))
            assert memory == made.memory
            actions[now] = made.decisions[0].action
        started = [now for now, action in actions.items() if action is Action.START]
        assert started and started[0] <= 2 * 900 + 200 and actions[100] is Action.WAIT


def test_a_promise_ends_with_its_time_or_a_better_offer() -> None:
    told = Promised(100.0, 1.5, Reason.BETTER_GPUS_SOON)
    assert told.answers(1.5, 99.0) and told.answers(1.6, 99.0)
    assert not told.answers(1.4, 99.0) and not told.answers(1.5, 100.0)


@pytest.mark.parametrize("text", ["null", "7", "[]", "{}", '{"version": 2}', '{"version": 1, "begun": 0}', NAN])
def test_what_is_no_memory_is_none(text: str) -> None:
    assert memory_of(json.loads(text)) == Memory()


def test_nobody_waits_for_what_no_free_gpu_could_give() -> None:
    """Slow GPUs in every choice of slots: what is offered on an idle cluster is the best there is."""
    cluster = homogeneous(16, 4, rack_size=8)
    scores = 1.0 + 0.1 * (np.arange(64).reshape(1, 16, 4) % 7)
    table = ScoreTable(("A",), scores, np.rint(scores * 10).astype(np.int16), np.ones_like(scores, dtype=bool))
    wide = replace(JOB, user="u", shape=Shape(1, 16, gpus=32))
    facts = Circumstances(run_times=ran(1800.0))
    assert [
        d.action for d in plan(Snapshot(100.0, cluster, (wide,)), Knowledge(table), compose("pal"), facts).decisions
    ] == [Action.START]


def _told(rivals: bool, job: Job, since: float) -> bool:
    return rivals


def test_nobody_declines_what_jobs_that_are_not_leased_would_take() -> None:
    for action, rivals in ((Action.WAIT, False), (Action.START, True)):
        facts = Circumstances(run_times=ran(1800.0), rivals=partial(_told, rivals))
        snapshot = beside(600 + 1800, facts)
        assert plan(snapshot, known(snapshot.cluster, 1.5), compose("pal"), facts).decisions[0].action is action


def test_nobody_waits_for_a_free_gpu_that_it_can_not_have() -> None:
    """The fast GPU of n2 is held for an hour. The one of n1 is free, on a node of another partition or without CPUs."""
    scores = np.array([[[1.0, 1.5], [1.0, 1.5]]])
    table = ScoreTable(("A",), scores, (scores > 1.0).astype(np.int16), np.ones_like(scores, dtype=bool))
    facts = Circumstances(run_times=ran(1800.0))
    cluster = replace(homogeneous(2, 2), gpu_free=np.array([[True, False], [False, True]]))
    holder = running(9, {"n2": (0,)}, 3700, user="u", start=100, time_limit_s=3600)
    apart = {"gpu": np.array([False, True]), "other": np.array([True, False])}
    for other in (
        replace(cluster, partitions=apart),
        replace(cluster, cpus_free=np.array([0, int(cluster.cpus_free[1])])),
    ):
        snapshot = Snapshot(100.0, other, (replace(JOB, user="u"),), (holder,))
        (decision,) = plan(snapshot, Knowledge(table), compose("pal"), facts).decisions
        assert decision.action is Action.START
        assert decision.placement == Placement(("n2",), ((1,),), True)


ARRAY = replace(JOB, array_id=1, array_tasks=(0,))


@pytest.mark.parametrize("job", [JOB, ARRAY], ids=["job", "array"])
def test_who_declines_what_keeps_nodes_whole_gets_the_fastest_that_is_free(job: Job) -> None:
    scores = np.array([[[1.0, 1.05], [1.0, 1.0]]])
    table = ScoreTable(("A",), scores, (scores > 1.0).astype(np.int16), np.ones_like(scores, dtype=bool))
    cluster = replace(homogeneous(2, 2), gpu_free=np.array([[False, True], [True, True]]))
    snapshot = Snapshot(100.0, cluster, (replace(job, user="u"),), ())
    facts = Circumstances(run_times=ran(1800.0))
    (decision,) = plan(snapshot, Knowledge(table), compose("pal"), facts).decisions
    assert (decision.action, decision.placement) == (Action.START, Placement(("n2",), ((0,),), True))
