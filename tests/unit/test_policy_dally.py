"""Dally's rule by tables: who takes what when, timers after a history, whom an offer reaches first; `fixed`."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.published.orders import order_named
from pal_slurm.errors import ConfigError
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Knowledge,
    Reason,
    Shape,
    Snapshot,
    Tier,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import NAMED, Progress, compose, plan
from pal_slurm.policy.memory import Memory, memory_of
from pal_slurm.policy.patience.dally import Dally, Timers
from pal_slurm.policy.seams import Lessons, Offer, Settled, Wait, patiences
from tests.builders import leased, waiting

LEASE = 3600
RULE = Dally(LEASE, 24, 6, 12)
NODE, RACK, FAR = float(Tier.NODE), float(Tier.RACK), float(Tier.CLUSTER)


def rows(tier: float, gpus: int, *leases: float) -> Lessons:
    return tuple((tier, float(gpus), 0.0, waited) for waited in leases)


@pytest.mark.parametrize(
    ("node", "rack", "timers"),
    [
        ((), (), (6, 12)),  # an empty history counts as 1: the floors
        ((3.0,), (3.0,), (6, 12)),
        ((10.0, 10.0), (13.0,), (10, 13)),
        ((8.0, 12.0), (), (14, 12)),  # mean 10, deviation 2
        ((8.5, 12.5), (), (15, 12)),  # 14.5, whole leases
        ((100.0,), (100.0,), (20, 24)),  # at most 0.8 H (19.2, whole) and H
    ],
)
def test_timers_follow_the_waits_of_the_window(
    node: tuple[float, ...], rack: tuple[float, ...], timers: tuple[int, int]
) -> None:
    lessons = rows(NODE, 4, *node) + rows(RACK, 4, *rack)
    assert RULE.tuned(4, lessons) == Timers(*timers)
    assert RULE.tuned(8, lessons) == Timers(6, 12)  # of exactly so many GPUs


@pytest.mark.parametrize(
    ("tier", "narrowest", "waited", "timer"),
    [
        (Tier.NODE, Tier.NODE, 0.0, None),  # a node at once
        (Tier.GPU, Tier.GPU, 0.0, None),
        (Tier.RACK, Tier.NODE, 0.0, 6),
        (Tier.RACK, Tier.NODE, 5.99, 6),
        (Tier.RACK, Tier.NODE, 6.0, None),
        (Tier.RACK, Tier.RACK, 0.0, None),  # more GPUs than a node has
        (Tier.CLUSTER, Tier.NODE, 6.0, 12),  # the same clock: not 6 and 12
        (Tier.CLUSTER, Tier.NODE, 12.0, None),
        (Tier.CLUSTER, Tier.RACK, 11.0, 12),
        (Tier.CLUSTER, Tier.CLUSTER, 0.0, None),  # more than a rack has
    ],
)
def test_what_is_taken_depends_on_the_time_since_the_submission(
    tier: Tier, narrowest: Tier, waited: float, timer: int | None
) -> None:
    offer = Offer(tier, 1.0, waited * LEASE, narrowest=narrowest, gpus=4)
    expected = None if timer is None else Wait(Reason.BETTER_SPAN_SOON, timer * float(LEASE))
    assert RULE.waits(leased(1, 4), offer) == expected


def test_waits_for_nodes_and_racks_are_recorded_by_size_from_one_lease_on_and_within_the_window() -> None:
    def took(tier: Tier, gpus: int, leases: float, at: float) -> Settled:
        job = waiting(1, gpus, submit=int(at - leases * LEASE))
        return Settled(job, Offer(tier, 1.0, leases * LEASE, gpus=gpus), at, None)

    at = 1_000_000.0
    lessons = RULE.learns((), [took(Tier.NODE, 4, 2, at), took(Tier.NODE, 4, 0.9, at), took(Tier.CLUSTER, 4, 9, at)])
    assert lessons == ((NODE, 4.0, at, 2.0),)
    lessons = RULE.learns(lessons, [took(Tier.RACK, 8, 3, at + LEASE)])
    assert lessons == ((NODE, 4.0, at, 2.0), (RACK, 8.0, at + LEASE, 3.0))
    later = at + 25 * LEASE
    assert RULE.learns(lessons, [took(Tier.NODE, 4, 0.5, later)]) == ((RACK, 8.0, at + LEASE, 3.0),)
    assert RULE.learns(((1.0, 2.0), *lessons), [took(Tier.NODE, 4, 1, at)])[0] == lessons[0]  # not a row of ours


def test_an_offer_reaches_newcomers_first_and_then_who_was_hurt_most() -> None:
    order = order_named("nw-sens")
    ran = {1: Progress(1000.0, 900.0), 2: Progress(1000.0, 300.0), 3: Progress(500.0, 150.0)}
    jobs = [waiting(i, 1, submit=i) for i in range(1, 6)]
    assert [j.id for j in sorted(jobs, key=lambda j: order.key(j, ran.get(j.id)))] == [4, 5, 3, 2, 1]


def test_the_plan_declines_a_rack_until_the_timer_and_another_job_takes_what_it_leaves() -> None:
    cluster = homogeneous(4, 2, rack_size=2)
    cluster = replace(cluster, gpu_free=np.array([[True, False]] * 4))
    app = App("x", "A", comm=(1.0, 1.0, 1.0, 1.0))  # the rule does not ask what distance costs
    known = Knowledge(neutral_scores(cluster), Apps({}, app))
    pair = leased(1, 2, until=10**7, submit=1_000_000, shape=Shape(max_nodes=2, gpus=2), partitions=("gpu",))
    one = replace(pair, id=2, shape=Shape(gpus=1))
    composition, memory = compose("dally", patience=f"dally({LEASE},24,6,12)"), Memory(999_999.0)
    for leases, action in ((0.0, Action.WAIT), (5.9, Action.WAIT), (6.0, Action.START)):
        made = plan(Snapshot(1_000_000 + leases * LEASE, cluster, (pair, one)), known, composition, memory=memory)
        memory = memory_of(json.loads(json.dumps(made.memory.plain())))
        assert memory == made.memory
        assert {d.job: d.action for d in made.decisions} == {1: action, 2: Action.START}
    assert memory.lessons == ((RACK, 2.0, 1_000_000 + 6.0 * LEASE, 6.0),) and memory.learner == "dally"
    other = plan(Snapshot(2e6, cluster, ()), known, compose("pal"), memory=memory)
    assert other.memory.lessons == ()  # another patience can't read them


def test_fixed_timers_are_seconds_since_the_submission() -> None:
    rule = patiences.get("fixed(100,300)")
    for tier, waited, most in (
        (Tier.NODE, 0, None),
        (Tier.RACK, 99, 100),
        (Tier.RACK, 100, None),
        (Tier.CLUSTER, 200, 300),
    ):
        wait = rule.waits(leased(1, 4), Offer(tier, 1.0, float(waited), narrowest=Tier.NODE, gpus=4))
        assert wait == (None if most is None else Wait(Reason.BETTER_SPAN_SOON, float(most)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fixed(300,100)", "the wait for a rack is the longer one"),
        ("fixed(1,2,3)", "takes 2 numbers at most"),
        ("dally(0)", "a lease has a length"),
        ("dally(1,2,3,4,5)", "takes 4 numbers at most"),
        ("fixed(1,)", "there is no patience"),
        ("fixed(-1)", "there is no patience"),
    ],
)
def test_constants_that_make_no_sense_are_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        patiences.get(name)


def test_dally_leaves_room_for_the_head_of_the_queue_whatever_its_author_does() -> None:
    assert compose("dally").fill.reserve == 1 and NAMED["dally"] == ("slurm", "packed", "dally", "easy")
