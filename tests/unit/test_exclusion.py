"""Which nodes a waiting job is kept off: what the policy says, what the guard lets pass, how the list tells it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.guard import Cause, Permit, Refusal, check_exclusion
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Decision,
    Excluded,
    Hint,
    Job,
    Knowledge,
    Lease,
    Placement,
    PoolRules,
    Reason,
    Request,
    Reservation,
    RunTimes,
    Shape,
    Snapshot,
    Waits,
    homogeneous,
    neutral_scores,
    predict,
)
from pal_slurm.policy.exclusion import Exclusion, ExclusionRules, exclusions
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.slurm.excluded import ours_of, own_of, with_ours
from tests.builders import NOW, running, scores, snapshot, usual, waiting

RULES = ExclusionRules(worse=0.1, most_wait_s=300.0)
WHOLE = usual(1.0)  # of their limits
SLOW = [[1.5] * 4] * 2 + [[1.0] * 4] * 4  # n1 and n2
KNOWN = Knowledge(scores(A=SLOW))


def job(number: int = 1, gpus: int = 1, /, **facts: Any) -> Job:
    made = {"partitions": ("gpu",), "why": Waits.ROOM, "time_limit_s": 3600}
    return waiting(number, **{"shape": Shape(gpus_per_node=gpus), **made, **facts})


def full(cluster: Cluster, *jobs: Job) -> Cluster:
    free = cluster.gpu_free.copy()
    for found in jobs:
        for node, slots in zip(found.nodes, found.gpus, strict=True):
            free[cluster.node_index[node], list(slots)] = False
    return replace(cluster, gpu_free=free)


def site(*ends: int, others: tuple[Job, ...] = ()) -> Snapshot:
    """Six nodes, all held by one job each, which end by their limits then."""
    held = [running(90 + n, {f"n{n + 1}": (0, 1, 2, 3)}, NOW + end) for n, end in enumerate(ends)]
    return snapshot(*others, *held, cluster=full(homogeneous(6, 4), *held))


def kept_off(wants: Job, *ends: int, known: Knowledge = KNOWN, times: RunTimes = WHOLE) -> Exclusion | None:
    found = exclusions(site(*(ends or (100,) * 6), others=(wants,)), known, RULES, times, lambda _: False)
    return found[0] if found else None


def test_a_job_is_kept_off_the_nodes_that_are_slower_for_it() -> None:
    found = kept_off(job())
    assert found is not None and found.nodes == ("n1", "n2") and not found.declines
    assert found.worse == pytest.approx(0.5)


@pytest.mark.parametrize(
    "facts",
    [
        {"array_id": 1}, {"het": True}, {"exclusive": True}, {"required_nodes": "n1"}, {"reservation": "r"},
        {"dependency": "afterok:1"}, {"hint": Hint(off=True)}, {"shape": None}, {"partitions": ("gpu", "other")},
        {"lease": Lease(NOW + 9, Request())}, {"why": Waits.HELD}, {"why": Waits.BEGIN}, {"why": Waits.LIMIT},
        {"excluded_nodes": "n[1-"}, {"features": "no-such"},
    ],
    ids=lambda facts: next(iter(facts)),
)  # fmt: skip
def test_who_said_where_or_how_he_wants_to_run_is_left_alone(facts: dict[str, Any]) -> None:
    assert kept_off(job(**facts)) is None


def test_at_least_half_of_what_it_may_have_and_twice_what_it_needs_stays_open() -> None:
    mostly = Knowledge(scores(A=[[1.5] * 4] * 4 + [[1.0] * 4] * 2))
    assert kept_off(job(), known=mostly) is None
    assert kept_off(job(shape=Shape(2, 2, gpus_per_node=1))) is not None
    assert kept_off(job(shape=Shape(3, 3, gpus_per_node=1))) is None
    own = kept_off(job(excluded_nodes="n[5-6]", excluded=None))
    assert own is not None and own.nodes == ("n1", "n2")  # n3 and n4 are left
    assert kept_off(job(excluded_nodes="n[4-6]")) is None


def test_nodes_that_are_down_are_none_that_are_left() -> None:
    view = site(*(100,) * 6, others=(job(shape=Shape(2, 2, gpus_per_node=1)),))
    ok = np.array([True, True, True, True, False, False])
    assert exclusions(view, KNOWN, RULES, WHOLE, lambda _: False)
    down = replace(view, cluster=replace(view.cluster, node_ok=ok))
    assert exclusions(down, KNOWN, RULES, WHOLE, lambda _: False) == []


def test_a_slow_node_is_declined_for_no_longer_than_it_would_cost() -> None:
    """Half of the run time for a job that would take half as long again; and never over most_wait_s."""
    short = job(time_limit_s=300)
    for times in (WHOLE, usual(0.5), RunTimes()):
        most_s = int(times.of(short, KNOWN.apps.default.name).at_least / 2)
        assert kept_off(short, 10, 10, *(10 + most_s,) * 4, times=times) is not None
        assert kept_off(short, 10, 10, *(11 + most_s,) * 4, times=times) is None
    assert kept_off(job(time_limit_s=7200), 10, 10, *(310,) * 4) is not None
    assert kept_off(job(time_limit_s=7200), 10, 10, *(311,) * 4) is None


def test_it_declines_where_it_could_start_now_and_a_slow_node_has_room_whatever_else_looks_free() -> None:
    held = [running(90 + n, {f"n{n}": (0, 1, 2, 3)}, NOW + 100) for n in (1, 3, 4, 5, 6)]

    def found(*busy: Job) -> Exclusion:
        view = snapshot(job(), *busy, cluster=full(homogeneous(6, 4), *busy))
        [one] = exclusions(view, KNOWN, RULES, WHOLE, lambda _: False)
        return one

    assert found(*held).declines and found(*held).wait_s == 300.0
    assert found(*held[:-1]).declines  # n6 may be kept for another
    n2 = running(92, {"n2": (0, 1, 2, 3)}, NOW + 100)
    assert not found(n2, *held[:-1]).declines


CHEAP_AND_DEAR = parse_cluster("old:3x4+new:3x4")
SPEEDS = Apps({"x": App("x", "A", {"old": 2.0, "new": 1.0})})


@pytest.mark.parametrize(
    ("rules", "facts", "shut"),
    [
        (PoolRules("ok", {"new": 4.0, "old": 1.0}), {}, 2),
        (PoolRules("never", {"new": 4.0, "old": 1.0}), {}, 0),
        (PoolRules("ask", {"new": 4.0, "old": 1.0}), {}, 0),
        (PoolRules("ask", {"new": 4.0, "old": 1.0}), {"hint": Hint("x", dearer=True)}, 2),
        (PoolRules("never"), {}, 2),
    ],
)
def test_nobody_is_driven_to_a_model_that_bills_more(rules: PoolRules, facts: dict[str, Any], shut: int) -> None:
    """One old node excludes its user himself: fewer than half are old."""
    wants = job(excluded_nodes="n1", **{"hint": Hint("x"), **facts})
    known = Knowledge(neutral_scores(CHEAP_AND_DEAR), SPEEDS, rules)
    found = exclusions(snapshot(wants, cluster=CHEAP_AND_DEAR), known, RULES, WHOLE, lambda _: False)
    assert [len(one.nodes) for one in found] == ([shut] if shut else [])


def test_several_nodes_of_one_rack_are_not_driven_out_of_it() -> None:
    racks = homogeneous(6, 4, rack_size=3)
    one_slow_each = Knowledge(scores(A=[[1.5] * 4, [1.0] * 4, [1.0] * 4, [1.5] * 4, [1.0] * 4, [1.0] * 4]))

    def shut(nodes: int) -> list[Exclusion]:
        wants = job(shape=Shape(nodes, nodes, gpus_per_node=1))
        return exclusions(snapshot(wants, cluster=racks), one_slow_each, RULES, WHOLE, lambda _: False)

    assert len(shut(2)) == 1
    few = Knowledge(scores(A=[[1.5] * 4, [1.5] * 4, [1.0] * 4, [1.5] * 4, [1.0] * 4, [1.0] * 4]))
    assert (
        exclusions(snapshot(job(shape=Shape(2, 2, gpus_per_node=1)), cluster=racks), few, RULES, WHOLE, lambda _: False)
        == []
    )


def test_what_is_expected_of_a_node_is_the_mean_of_the_one_equation_over_its_gpus() -> None:
    """Any two of four: the slower of each pair."""
    mixed = [[0.9, 1.0, 1.1, 2.0]] + [[1.0] * 4] * 5
    known = Knowledge(scores(A=mixed), Apps({"x": App("x", "A", {"gpu": 0.4})}))
    wants = job(1, 2, hint=Hint("x"))
    found = kept_off(wants, known=known)
    cluster = homogeneous(6, 4)
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    steps = [predict(known.apps.get("x"), Placement(("n1",), (pair,), False), cluster, known.scores) for pair in pairs]
    assert found is not None and found.nodes == ("n1",)
    assert found.worse == pytest.approx(sum(steps) / len(steps) / 0.4 - 1.0)


def test_a_class_that_does_not_suffer_takes_what_comes() -> None:
    known = Knowledge(scores(A=SLOW, C=[[1.05] * 4] * 2 + [[1.0] * 4] * 4), Apps({"c": App("c", "C")}))
    assert kept_off(job(hint=Hint("c")), known=known) is None
    assert kept_off(job(), known=known) is not None


# --- the guard

DECISION = Decision(1, None, Action.EXCLUDE, Reason.SLOWER_NODES)


def verdict(wants: Job, *nodes: str, view: Snapshot | None = None) -> Cause | None:
    said = check_exclusion(DECISION, nodes, view or site(*(100,) * 6, others=(wants,)))
    assert isinstance(said, Permit | Refusal)
    return said.reason if isinstance(said, Refusal) else None


def test_the_guard_lets_pass_what_leaves_enough() -> None:
    assert verdict(job(), "n1", "n2", "n3") is None
    assert verdict(job(excluded_nodes="n6"), "n1", "n2") is None
    assert verdict(job(excluded_nodes="n1,n1,n1,n6", excluded=Excluded(frozenset({"n1"}), "n6")), "n1", "n2") is None


@pytest.mark.parametrize(
    ("facts", "nodes", "cause"),
    [
        ({}, ("n1", "n2", "n3", "n4"), Cause.TOO_FEW_LEFT),
        ({}, tuple(f"n{n}" for n in range(1, 7)), Cause.TOO_FEW_LEFT),
        ({"excluded_nodes": "n[4-6]"}, ("n1", "n2"), Cause.TOO_FEW_LEFT),
        ({"shape": Shape(2, 2, gpus_per_node=1)}, ("n1", "n2", "n3"), Cause.TOO_FEW_LEFT),
        ({"shape": Shape(gpus_per_node=5)}, ("n1",), Cause.TOO_FEW_LEFT),
        ({"shape": Shape(gpus_per_node=1, cpus_per_node=65)}, ("n1",), Cause.TOO_FEW_LEFT),
        ({"features": "nowhere"}, ("n1",), Cause.TOO_FEW_LEFT),
        ({"partitions": ("gone",)}, ("n1",), Cause.TOO_FEW_LEFT),
        ({"partitions": ("gpu", "other")}, ("n1",), Cause.HANDS_OFF),
        ({}, ("n9",), Cause.NO_SUCH_NODE),
        ({"excluded_nodes": "n[1-"}, ("n1",), Cause.EXCLUDED),
        ({"required_nodes": "n1"}, ("n1",), Cause.HANDS_OFF),
        ({"array_id": 1}, ("n1",), Cause.HANDS_OFF),
        ({"reservation": "r"}, ("n1",), Cause.HANDS_OFF),
        ({"lease": Lease(NOW + 9, Request())}, ("n1",), Cause.HANDS_OFF),
        ({"hint": Hint(off=True)}, ("n1",), Cause.HANDS_OFF),
        ({"dependency": "afterok:2"}, ("n1",), Cause.NOT_ELIGIBLE),
        ({"why": Waits.HELD}, ("n1",), Cause.HELD),
    ],
)
def test_the_guard_refuses_what_could_hurt(facts: dict[str, Any], nodes: tuple[str, ...], cause: Cause) -> None:
    assert verdict(job(**facts), *nodes) is cause


def test_the_guard_counts_no_node_that_is_down_or_reserved() -> None:
    view = site(*(100,) * 6, others=(job(),))
    down = replace(view, cluster=replace(view.cluster, node_ok=np.array([True] * 3 + [False] * 3)))
    assert verdict(job(), "n1", "n2", view=down) is Cause.TOO_FEW_LEFT
    window = Reservation("r", frozenset({"n4", "n5", "n6"}), NOW + 50, NOW + 99)
    assert verdict(job(), "n1", "n2", view=replace(view, reservations=(window,))) is Cause.TOO_FEW_LEFT
    assert verdict(job(2), "n1") is Cause.NOT_PENDING


# --- the list

NODES = st.lists(st.sampled_from([f"n{n}" for n in range(1, 12)] + ["gpu-a1", "m07"]), min_size=1, max_size=8)


@given(NODES, st.sampled_from(["", "n1", "n2,n1", "n[1-3]", "n[1,7-9],m07", "n3,n3,x", "gpu-a[1-2]"]))
def test_the_list_tells_ours_from_the_user_s_own(nodes: list[str], own: str) -> None:
    text = with_ours(nodes, own)
    assert ours_of(text) == Excluded(frozenset(nodes), own) and own_of(text) == own


@pytest.mark.parametrize("text", ["", "n1", "n[1-3]", "n1,n2", "n1,n2,n1", "n3,n[1-4],n3", "n1,n1", "n1,n[1-,n1"])
def test_a_list_that_nobody_of_ours_wrote_is_the_user_s_own(text: str) -> None:
    assert ours_of(text) is None and own_of(text) == text
