"""`value`: what waiting brings against what it is forecast to cost; its word stands; it learns when it was wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.model import (
    Action,
    App,
    Apps,
    Knowledge,
    Placement,
    Reason,
    ScoreTable,
    Shape,
    Snapshot,
    Tier,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import Circumstances, Plan, compose, plan
from pal_slurm.policy.memory import Memory
from pal_slurm.policy.patience.choosy import MOST_S
from pal_slurm.policy.patience.value import BOUND_S, FORECAST, KEPT, Value, size_class
from pal_slurm.policy.seams import Better, Offer, Promised, Settled, Wait, patiences
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.compare import compare
from pal_slurm.sim.costs import parse_costs
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.policies import PolicySpec, Setting
from pal_slurm.sim.traces import Options
from pal_slurm.sim.worlds import Sources, World, Worlds
from tests.builders import leased, running

RULE = patiences.get("value")
JOB = leased(1, 4, submit=0, time_limit_s=20_000)
FAR = Offer(Tier.CLUSTER, 3.0, 0.0, span_cost=3.0, narrowest=Tier.NODE, gpus=4, of_limit=0.5)
# 10,000 s on a node, 20,000 s more across racks, 5,000 s more in a rack


def near(node_s: float, rack_s: float) -> Offer:
    return FAR._replace(better=(Better(Tier.NODE, 1.0, node_s), Better(Tier.RACK, 1.5, rack_s)))


@pytest.mark.parametrize(
    ("node_s", "rack_s", "most_s"),
    [
        (39_999.0, 1e9, 40_000.0),  # what it brings, and as much to those who wait for its GPUs
        (40_000.0, 1e9, None),  # not worth it
        (1e9, 29_999.0, 30_000.0),  # 15,000 s by a rack
        (0.0, 0.0, 40_000.0),
        (np.inf, np.inf, None),
    ],
)
def test_it_waits_where_that_brings_more_than_it_is_forecast_to_cost(
    node_s: float, rack_s: float, most_s: float | None
) -> None:
    wait = None if most_s is None else Wait(Reason.BETTER_SPAN_SOON, most_s)
    assert RULE.waits(JOB, near(node_s, rack_s)) == wait


def test_nobody_waits_past_the_bound_and_where_limits_tell_nothing_not_past_that_of_choosy() -> None:
    week = replace(JOB, time_limit_s=100 * 86_400)
    assert RULE.waits(week, near(0.0, 0.0)) == Wait(Reason.BETTER_SPAN_SOON, BOUND_S)
    assert RULE.waits(week, near(0.0, 0.0)._replace(of_limit=None)) == Wait(Reason.BETTER_SPAN_SOON, MOST_S)
    assert RULE.waits(replace(JOB, time_limit_s=None), near(0.0, 0.0)) is None
    assert RULE.waits(week, near(0.0, 0.0)._replace(declined_s=BOUND_S + 1.0)) is None
    late = near(0.0, 0.0)._replace(of_limit=None, waited_s=100_000.0, declined_s=10_000.0)
    assert RULE.waits(week, late) is None and MOST_S < 10_000.0  # a tenth of the wait before it


def test_slow_gpus_are_declined_as_choosy_declines_them_and_a_flat_cost_is_nothing_to_wait_for() -> None:
    slow = Offer(Tier.GPU, 1.5, 0.0, faster=8, of_limit=0.5)
    assert RULE.waits(JOB, slow) == patiences.get("choosy").waits(JOB, slow) is not None
    assert RULE.waits(JOB, FAR._replace(slowdown=1.0, span_cost=1.0)) is None


@pytest.mark.parametrize(("slow", "waits"), [(12, 0), (9, 0), (8, 8), (3, 3)])
def test_where_most_gpus_are_slow_nobody_waits_for_the_few_that_are_not(slow: int, waits: int) -> None:
    cluster = homogeneous(4, 4)
    scores = np.ones(16)
    scores[16 - slow :] = 1.4
    shown = scores.reshape(1, 4, 4)
    known = Knowledge(ScoreTable(("A",), shown, (shown > 1.0).astype(np.int16), np.ones_like(shown, dtype=bool)))
    jobs = tuple(leased(i, 1, until=10_000, submit=0, partitions=("gpu",), time_limit_s=10_000) for i in range(1, 17))
    made = plan(Snapshot(100.0, cluster, jobs), known, compose("pal", patience="value"))
    assert sum(d.reason is Reason.BETTER_GPUS_SOON for d in made.decisions) == waits
    assert sum(d.action is Action.START for d in made.decisions) == 16 - waits


@given(st.integers(1, 64), st.lists(st.floats(1.0, 3.0), min_size=2, max_size=64), st.integers(60, 10**6))
def test_of_the_gpus_of_one_cluster_a_slower_one_is_never_taken_sooner(
    gpus: int, scores: list[float], limit: int
) -> None:
    job = replace(JOB, time_limit_s=limit, shape=Shape(gpus=gpus, max_nodes=64))

    def kept(score: float) -> float:
        faster = sum(other < score for other in scores)
        wait = RULE.waits(job, Offer(Tier.GPU, score, 0.0, faster=faster, usable=len(scores)))
        return 0.0 if wait is None else wait.most_s

    waits = [kept(score) for score in sorted(scores)]
    assert waits == sorted(waits)


def test_waits_that_were_in_vain_leave_only_those_of_that_size_waiting_for_whom_more_is_at_stake() -> None:
    promised = Promised(40_000.0, 3.0, Reason.BETTER_SPAN_SOON)
    vain = Settled(JOB, FAR._replace(declined_s=40_000.0), 40_000.0, promised)
    well = Settled(JOB, FAR._replace(declined_s=4_000.0), 4_000.0, promised)
    rule = Value(BOUND_S, 200)
    lessons = rule.learns((), [vain])
    assert lessons == ((size_class(4), 40_000.0, 0.0),)
    assert (
        rule.waits(JOB, near(0.0, 0.0)._replace(lessons=lessons)) is not None
    )  # 20,000 s are expected, 40,000 at stake
    lessons = rule.learns(lessons, [vain, vain])
    [(_, waited_s, _)] = lessons
    assert waited_s / FORECAST == pytest.approx(20_000.0 * (1 + KEPT + KEPT**2)) and waited_s / FORECAST > 40_000.0
    assert rule.waits(JOB, near(0.0, 0.0)._replace(lessons=lessons)) is None
    longer = replace(JOB, time_limit_s=40_000)
    assert rule.waits(longer, near(0.0, 0.0)._replace(lessons=lessons)) == Wait(Reason.BETTER_SPAN_SOON, 80_000.0)
    assert rule.waits(JOB, near(0.0, 0.0)._replace(lessons=lessons, gpus=8)) == rule.waits(JOB, near(0.0, 0.0))
    for _ in range(60):
        lessons = rule.learns(lessons, [well])
    [(_, waited_s, ended_well)] = lessons
    assert waited_s / ended_well == pytest.approx(4_000.0, rel=0.1)
    assert rule.waits(JOB, near(1e9, 50_000.0)._replace(lessons=lessons)) == Wait(Reason.BETTER_SPAN_SOON, 30_000.0)


def test_lessons_of_settled_jobs_that_waited_for_no_span_or_that_are_absurd_are_none() -> None:
    rule, promised = Value(BOUND_S, 200), Promised(100.0, 3.0, Reason.BETTER_SPAN_SOON)
    unasked = [
        Settled(JOB, FAR, 100.0, None),
        Settled(JOB, FAR, 100.0, promised._replace(reason=Reason.BETTER_GPUS_SOON)),
    ]
    assert rule.learns((), unasked) == ()
    absurd = ((2.0, 0.5), (1.0,), (2.0, np.nan, 1.0), (2.0, np.inf, 1.0), (2.0, 1e9, -1.0), (2.0, 1.0, 1e9))
    for row in absurd:
        assert rule.waits(JOB, near(0.0, 0.0)._replace(lessons=(row,))) == rule.waits(JOB, near(0.0, 0.0))


def two_racks(end: int) -> tuple[Snapshot, Knowledge]:
    """One GPU free in each of four nodes; the other of n1 until `end`."""
    cluster = homogeneous(4, 2, rack_size=1)
    cluster = replace(cluster, gpu_free=np.array([[False, True]] * 4))
    held = [running(10 + i, {f"n{i}": (0,)}, end if i == 1 else None, time_limit_s=3600) for i in range(1, 5)]
    pair = leased(1, 2, until=10**9, submit=1000, shape=Shape(max_nodes=2, gpus=2), time_limit_s=8000)
    known = Knowledge(neutral_scores(cluster), Apps({}, App("x", "A", comm=(1.0, 1.0, 1.5, 2.0))))
    return Snapshot(1000.0, cluster, (replace(pair, partitions=("gpu",)),), tuple(held)), known


@pytest.mark.parametrize(("end", "action"), [(16_900, Action.WAIT), (17_100, Action.START)])
def test_the_forecast_comes_from_the_limits_of_what_runs_and_the_share_of_them_that_is_used(
    end: int, action: Action
) -> None:
    """It would run 4,000 s on a node and 8,000 across racks: half of (end - now) is less than twice the difference."""
    seen, known = two_racks(end)
    composition, facts = compose("packed", patience="value"), Circumstances(of_limit=0.5)
    made = plan(seen, known, composition, facts, Memory(0.0))
    assert made.decisions[0].action is action
    if action is Action.WAIT:
        assert made.wake_at == 1000 + 8000.0 and made.decisions[0].until == made.wake_at
        assert list(made.memory.promised.values()) == [Promised(9000.0, 2.0, Reason.BETTER_SPAN_SOON)]


def test_its_word_stands_whatever_is_forecast_later_until_then_and_not_longer() -> None:
    seen, known = two_racks(16_900)
    composition, facts = compose("packed", patience="value"), Circumstances(of_limit=0.5)
    memory = plan(seen, known, composition, facts, Memory(0.0)).memory
    worse = two_racks(99_000)[0]
    for now, action in ((8999.0, Action.WAIT), (9000.0, Action.START)):
        made = plan(replace(worse, taken=now), known, composition, facts, memory)
        assert made.decisions[0].action is action
        assert made.memory.lessons == (() if action is Action.WAIT else ((1.0, 8000.0, 0.0),))
    free = seen.cluster.gpu_free.copy()
    free[0] = True
    better = replace(seen, taken=1500.0, cluster=replace(seen.cluster, gpu_free=free), running=seen.running[1:])
    made = plan(better, known, composition, facts, memory)
    assert made.decisions[0].placement == Placement(("n1",), ((0, 1),), True, None)
    assert made.memory.lessons == ((1.0, 500.0, 1.0),)


@pytest.mark.parametrize(("badness", "action"), [(1.05, Action.WAIT), (2.0, Action.START)])
def test_who_has_waited_long_enough_beside_a_good_offer_does_not_take_a_bad_one_then(
    badness: float, action: Action
) -> None:
    """It waited from 1,000 s to 4,000 s; for the offer that there is now, twice as slow, it would until 9,000 s."""
    seen, known = two_racks(16_900)
    key = seen.pending[0].key
    why = Reason.BETTER_GPUS_SOON if badness < 1.5 else Reason.BETTER_SPAN_SOON
    memory = Memory(0.0, {key: 1000.0}, promised={key: Promised(4000.0, badness, why)})
    composition, facts = compose("packed", patience="value"), Circumstances(of_limit=0.5)
    made = plan(replace(seen, taken=5000.0), known, composition, facts, memory)
    assert made.decisions[0].action is action
    if action is Action.WAIT:
        assert made.memory.promised[key] == Promised(9000.0, 2.0, Reason.BETTER_SPAN_SOON)
        again = plan(replace(seen, taken=9000.0), known, composition, facts, made.memory)
        assert again.decisions[0].action is Action.START


def starts(policy: str, patience: str, comm: str) -> list[tuple[float, ...]]:
    cluster = parse_cluster("16x4/4")
    costs = parse_costs(comm)
    worlds = Worlds(Sources("synthetic:jobs=400", options=Options(limit_factor=2.0), costs=costs, share=0.95), cluster)

    def alike(seed: int) -> World:
        neutral = neutral_scores(cluster)
        return replace(worlds(seed), truth=neutral, known=neutral)

    spec = PolicySpec(policy=policy, patience=patience, fill="easy", moves=False)
    [column] = compare([spec], Setting(cluster, 1.0, ClusterRules(), False), alike, range(2))
    return [tuple(outcome.start_s.tolist()) for outcome in column.outcomes]


@pytest.mark.parametrize("policy", ["packed", "pal"])
def test_where_distance_costs_nothing_everybody_starts_as_without_patience_to_the_last_bit(policy: str) -> None:
    assert starts(policy, "value", "flat") == starts(policy, "none", "flat")
    assert starts(policy, "value", "1/1/3/8") != starts(policy, "none", "1/1/3/8")


class Watched(InPlanner):
    """Notes how long each job was bidden to wait, from its first offer on."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.most: dict[int, float] = {}

    def plan(self, now: float) -> Plan:
        made = super().plan(now)
        memory = made.memory
        for key, promised in memory.promised.items():
            bidden = promised.until - memory.declining[key]
            assert bidden <= BOUND_S
            self.most[key.id] = max(self.most.get(key.id, 0.0), bidden)
        return made


def test_in_fourfold_overload_nobody_waits_past_his_bound_and_no_bound_grows() -> None:
    cluster = parse_cluster("16x4/4")
    sources = Sources("synthetic:jobs=500", options=Options(limit_factor=2.0), costs=parse_costs("1/1/3/8"), share=4.0)
    drawn = Worlds(sources, cluster)(1)
    assert drawn.load.works[-1].submit - drawn.load.works[0].submit > 86_400.0  # for a day and more
    watched = Watched("watched", cluster, drawn.known, compose("packed", order="fifo", patience="value"))
    outcome = Engine(cluster, drawn.truth, drawn.load, watched, ClusterRules()).run()
    assert len(watched.most) > 10
    works = {work.id: work for work in drawn.load.works}
    for job, bidden in watched.most.items():  # twice what a span of 8 instead of 1 would cost, by the whole limit
        assert bidden <= 2.0 * 7.0 * (works[job].limit_s or 0.0)
    ends = dict(zip(outcome.job_ids.tolist(), outcome.start_s.tolist(), strict=True))
    order = sorted(watched.most, key=lambda job: ends[job])
    early, late = order[: len(order) // 2], order[len(order) // 2 :]
    share = [np.mean([watched.most[job] / (works[job].limit_s or 1.0) for job in some]) for some in (early, late)]
    assert share[1] <= 1.5 * share[0]
