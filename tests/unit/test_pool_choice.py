"""Which GPU model a waiting job takes where it won't be moved: by prices, for a bounded time, none unasked dearer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.guard import Cause, Refusal, Rules, check
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Decision,
    Hint,
    Job,
    Knowledge,
    Lease,
    Placement,
    PoolRules,
    RatedApp,
    Reason,
    Request,
    Shape,
    Trust,
    neutral_scores,
)
from pal_slurm.policy import Circumstances, compose, plan
from pal_slurm.policy.plan import NOTHING_SPECIAL
from pal_slurm.report.why import sentences, why_of
from pal_slurm.sim.clusters import parse_cluster
from tests.builders import NOW, leased, running, snapshot, usual

SLOW, FAST = "n1", "n2"
CLUSTER = parse_cluster("slow:1x2+fast:1x2")
FUSSY, EASY = App("fussy", "A", {"slow": 10.0, "fast": 1.0}), App("easy", "A", {"slow": 1.1, "fast": 1.0})
APPS = Apps({"fussy": FUSSY, "easy": EASY})
HOUR_S = 3600
HALF = Circumstances(run_times=usual(0.5))  # jobs run half of their limits
UNKNOWN = NOTHING_SPECIAL


def knows(rules: PoolRules | None = None, cluster: Cluster = CLUSTER) -> Knowledge:
    return Knowledge(neutral_scores(cluster), APPS, rules or PoolRules("ok"))


def asks(number: int, app: str | None, gpus: int = 1, /, **facts: Any) -> Job:
    told = {"partitions": ("gpu",), "time_limit_s": 100 * HOUR_S, "hint": Hint(app), **facts}
    return leased(number, gpus, **told)


def decided(
    *jobs: Job, cluster: Cluster = CLUSTER, rules: PoolRules | None = None, now: float = NOW,
    facts: Circumstances = HALF, policy: str = "pal",
) -> Mapping[int, Decision]:  # fmt: skip
    busy = cluster.gpu_free.copy()
    for job in jobs:
        for node, slots in zip(job.nodes, job.gpus, strict=True):
            busy[cluster.node_index[node], list(slots)] = False
    seen = snapshot(*jobs, cluster=replace(cluster, gpu_free=busy), now=now)
    return {d.job: d for d in plan(seen, knows(rules, cluster), compose(policy), facts).decisions}


def nodes(made: Mapping[int, Decision]) -> dict[int, str | None]:
    return {job: d.placement.nodes[0] if d.placement else None for job, d in made.items()}


def test_the_only_one_that_waits_takes_what_is_fastest_for_it() -> None:
    assert nodes(decided(asks(1, "easy"))) == {1: FAST}
    assert nodes(decided(asks(1, "fussy"))) == {1: FAST}


def test_who_hardly_minds_leaves_the_fast_ones_to_those_behind_who_do() -> None:
    made = decided(asks(1, "easy"), asks(2, "easy"), asks(3, "fussy"), asks(4, "fussy"))
    assert nodes(made) == {1: SLOW, 2: SLOW, 3: FAST, 4: FAST}
    blind = decided(asks(1, "fussy"), asks(2, "fussy"), asks(3, "easy"), asks(4, "easy"), policy="packed")
    assert nodes(blind) == {1: SLOW, 2: SLOW, 3: FAST, 4: FAST}


BUSY = running(9, {FAST: (0, 1)}, end=NOW + HOUR_S, partitions=("gpu",), hint=Hint("fussy"))


def test_who_minds_waits_for_the_fast_ones_and_says_what_each_pool_would_cost() -> None:
    made = decided(BUSY, asks(1, "fussy"))[1]
    assert (made.action, made.reason) == (Action.WAIT, Reason.BETTER_POOL_SOON)
    costs = {cost.pool: cost for cost in made.weighed}
    assert set(costs) == {"gpu/slow", "gpu/fast"}
    assert costs["gpu/slow"].free and not costs["gpu/fast"].free
    assert costs["gpu/slow"].step_time == 10.0 and costs["gpu/fast"].step_time == 1.0
    assert costs["gpu/slow"].cost_s > costs["gpu/fast"].cost_s > costs["gpu/fast"].wait_s > 0


def test_why_names_the_pools_with_rates_as_doubtful_as_they_are_and_the_price() -> None:
    learned = RatedApp(
        "seen", "A", {"slow": 4.0, "fast": 1.0}, trusts={"slow": Trust(0.12, "app"), "fast": Trust(0.3, "class")}
    )
    known = Knowledge(neutral_scores(CLUSTER), Apps({"seen": learned}), PoolRules("ok"))
    taken = running(9, {FAST: (0, 1)}, end=NOW + HOUR_S, partitions=("gpu",))
    job = asks(1, "seen")
    busy = CLUSTER.gpu_free.copy()
    busy[CLUSTER.node_index[FAST], :2] = False
    seen = snapshot(taken, job, cluster=replace(CLUSTER, gpu_free=busy))
    waits = plan(seen, known, compose("pal"), HALF).decisions[0]
    assert waits.reason is Reason.BETTER_POOL_SOON
    told = " ".join(sentences(why_of(waits, job, seen, known, "pin")))
    assert "Pool gpu/slow: 4 s/step, rate 0.25 +-12% (learned from its own jobs); free; a second there" in told
    assert "Pool gpu/fast: 1 s/step, rate 1.00 +-30% (learned from its class); taken" in told
    assert "on a GPU model that costs it, and those who wait with it, more than the wait for another" in told


def test_it_waits_while_it_would_be_done_sooner_and_at_most_twice_what_it_gains() -> None:
    for limit_s, waits in ((HOUR_S, True), (HOUR_S // 10, False)):
        made = decided(BUSY, asks(1, "fussy", time_limit_s=limit_s))[1]
        assert (made.action is Action.WAIT) == waits
    gain_s = 50 * HOUR_S * (10.0 - 1.0)
    made = decided(BUSY, asks(1, "fussy", submit=int(NOW)))[1]
    assert made.until is not None and made.until - NOW == pytest.approx(2 * gain_s, rel=0.1)


def test_of_whose_run_time_nothing_is_known_waits_for_no_pool() -> None:
    assert nodes(decided(BUSY, asks(1, "fussy"), facts=UNKNOWN)) == {1: SLOW}


def test_a_faster_model_is_worth_no_wait_to_a_job_that_is_soon_over() -> None:
    assert nodes(decided(BUSY, asks(1, "fussy", time_limit_s=600))) == {1: SLOW}


def test_it_does_not_wait_where_somebody_who_asks_nobody_would_take_what_it_leaves() -> None:
    rivals = replace(HALF, rivals=lambda job, since: True)
    assert nodes(decided(BUSY, asks(1, "fussy"), facts=rivals)) == {1: SLOW}


def test_an_application_of_which_nothing_is_known_waits_for_no_pool() -> None:
    made = decided(BUSY, asks(1, None))[1]
    assert made.action is Action.START and made.weighed == ()


def test_with_one_model_nothing_is_weighed() -> None:
    alone = parse_cluster("fast:2x2")
    made = decided(asks(1, "fussy"), asks(2, "easy"), cluster=alone)
    assert all(d.action is Action.START and d.weighed == () for d in made.values())


def test_tasks_of_an_array_wait_for_a_pool_like_other_jobs() -> None:
    array = asks(1, "fussy", array_id=1, array_tasks=(4,))
    made = decided(BUSY, array)[1]
    assert (made.action, made.reason) == (Action.WAIT, Reason.BETTER_POOL_SOON)
    assert nodes(decided(array))[1] in (FAST, SLOW)


# dearer pools

DEAR = PoolRules("never", {"fast": 2.0, "slow": 1.0})
SAYS = Hint("fussy", dearer=True)


@pytest.mark.parametrize(
    ("rules", "facts", "node"),
    [
        (DEAR, {}, SLOW),
        (DEAR, {"hint": SAYS}, SLOW),
        (replace(DEAR, dearer="ask"), {}, SLOW),
        (replace(DEAR, dearer="ask"), {"hint": SAYS}, FAST),
        (replace(DEAR, dearer="ok"), {}, FAST),
        (DEAR, {"features": "fast|slow"}, FAST),  # he named both
        (DEAR, {"features": "fast"}, FAST),
        (DEAR, {"lease": Lease(NOW + 60, Request(), prefer="fast")}, FAST),  # as Slurm would bill it by itself
        (DEAR, {"types": ("fast",)}, FAST),
        (PoolRules("never", {"fast": 1.0, "slow": 1.0}), {}, FAST),
        (PoolRules("never"), {}, FAST),  # nobody said what anything bills
    ],
)
def test_a_dearer_model_is_given_to_those_who_asked_for_it(
    rules: PoolRules, facts: dict[str, Any], node: str
) -> None:  # fmt: skip
    featured = replace(CLUSTER, features=(frozenset({"slow"}), frozenset({"fast"})))
    assert nodes(decided(asks(1, "fussy", **facts), cluster=featured, rules=rules)) == {1: node}


def test_weights_of_the_partition_win_over_those_of_pal_yaml() -> None:
    cluster = replace(CLUSTER, billing={"gpu": {"slow": 3.0, "fast": 1.0}})
    assert nodes(decided(asks(1, None), cluster=cluster, rules=DEAR)) == {1: FAST}


def test_each_partition_that_a_user_names_he_asks_for() -> None:
    masks = {"old": np.array([True, False]), "new": np.array([False, True])}
    cluster = replace(CLUSTER, partitions=masks, billing={"new": {"fast": 9.0}, "old": {"slow": 1.0}})
    rules = PoolRules("never")
    both = asks(1, "fussy", partitions=("old", "new"))
    assert nodes(decided(both, cluster=cluster, rules=rules)) == {1: FAST}
    assert nodes(decided(replace(both, partitions=("old",)), cluster=cluster, rules=rules)) == {1: SLOW}


def test_nobody_gets_a_dear_model_while_it_waits_for_the_cheap_one() -> None:
    taken = running(9, {SLOW: (0, 1)}, end=NOW + HOUR_S, partitions=("gpu",))
    assert decided(taken, asks(1, "fussy"), rules=DEAR)[1].action is Action.WAIT


LARGER = parse_cluster("slow:1x2+fast:2x4")


@pytest.mark.parametrize(
    "shape", [Shape(gpus_per_node=4), Shape(gpus_per_node=1, cpus_per_node=40), Shape(2, 2, gpus_per_node=1)]
)
def test_a_model_of_which_there_is_never_enough_for_a_job_is_not_the_cheapest_that_it_could_get(shape: Shape) -> None:
    """Ahead of it waits one for whom room is kept."""
    cluster = replace(LARGER, cpus=np.array([32, 64, 64]), cpus_free=np.array([32, 64, 64]))
    head = asks(1, "fussy", shape=Shape(gpus_per_node=2), features="n1")
    small = running(9, {"n1": (0, 1)}, end=NOW + HOUR_S, partitions=("gpu",))
    cluster = replace(cluster, features=tuple(frozenset({name}) for name in cluster.node_names))
    made = decided(small, head, asks(2, "fussy", shape=shape), cluster=cluster, rules=DEAR)
    assert made[1].action is Action.WAIT
    assert made[2].action is Action.START and made[2].placement is not None
    assert set(made[2].placement.nodes) <= {"n2", "n3"}


def test_while_all_cheap_nodes_are_down_a_job_gets_what_slurm_would_give_it() -> None:
    down = replace(CLUSTER, node_ok=np.array([False, True]))
    assert nodes(decided(asks(1, "fussy"), cluster=down, rules=DEAR)) == {1: FAST}


# types of GRES


def test_a_model_that_a_request_names_as_a_type_is_kept_by_plan_and_guard() -> None:
    job = asks(1, "fussy", types=("slow",))
    assert nodes(decided(job)) == {1: SLOW}
    wrong = Decision(1, None, Action.START, Reason.BEST_SPAN, Placement((FAST,), ((0,),), True))
    (verdict,) = check([wrong], snapshot(job, cluster=CLUSTER), Rules(disable_job_shrink=True))
    assert isinstance(verdict, Refusal) and verdict.reason is Cause.MODEL


@pytest.mark.parametrize("types", [("nosuch",), ("fast", "slow")])
def test_types_that_are_no_single_model_of_ours_are_left_to_slurm(types: tuple[str, ...]) -> None:
    made = decided(asks(1, "fussy", types=types))[1]
    assert (made.action, made.reason) == (Action.PLAIN, Reason.CANT_PIN)


# --prefer


def prefers(words: str, number: int = 1, app: str | None = "fussy", **facts: Any) -> Job:
    job = asks(number, app, **facts)
    assert job.lease is not None
    return replace(job, lease=replace(job.lease, prefer=words))


@pytest.mark.parametrize(
    ("words", "node"),
    [("slow", SLOW), ("fast|slow", FAST), ("nosuch", FAST), ("slow&nosuch", FAST), ("[slow*1]", FAST), ("", FAST)],
)
def test_a_job_gets_what_its_user_prefers_and_else_what_suits_it(words: str, node: str) -> None:
    featured = replace(CLUSTER, features=(frozenset({"slow"}), frozenset({"fast"})))
    assert nodes(decided(prefers(words), cluster=featured)) == {1: node}


def test_nobody_waits_for_what_he_prefers() -> None:
    featured = replace(CLUSTER, features=(frozenset({"slow"}), frozenset({"fast"})))
    taken = running(9, {SLOW: (0, 1)}, end=NOW + HOUR_S, partitions=("gpu",))
    assert nodes(decided(taken, prefers("slow"), cluster=featured)) == {1: FAST}


def test_preferred_features_that_are_no_models_count_with_one_model_too() -> None:
    alone = replace(parse_cluster("fast:2x2"), features=(frozenset({"old"}), frozenset({"ssd"})))
    assert nodes(decided(prefers("ssd"), cluster=alone)) == {1: "n2"}
    assert nodes(decided(prefers(""), cluster=alone)) == {1: "n1"}


def test_nobody_waits_for_free_gpus_of_another_model_that_it_can_not_have() -> None:
    """One of FAST is free, where no CPU is; or where a feature is missing that the job asks for."""
    two = parse_cluster("slow:1x2+fast:2x2")
    holders = [running(9, {"n2": (0, 1)}, NOW + 300 * HOUR_S, partitions=("gpu",), time_limit_s=600 * HOUR_S)]
    having = {"n2": frozenset({"big"}), "n3": frozenset[str](), "n1": frozenset({"big"})}
    featured = replace(two, features=tuple(having[name] for name in two.node_names))
    no_cpus = replace(two, cpus_free=two.cpus_free * np.array([name != "n3" for name in two.node_names]))
    for cluster, words in ((featured, "big"), (no_cpus, "")):
        made = decided(*holders, asks(1, "fussy", features=words, time_limit_s=HOUR_S), cluster=cluster)[1]
        assert (made.action, made.placement and made.placement.nodes) == (Action.START, (SLOW,))
