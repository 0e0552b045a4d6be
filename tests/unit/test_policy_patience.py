"""`choosy`: a bad GPU is declined for a part of what it would cost, and taken then."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.model import (
    Action,
    App,
    Apps,
    BoolArray,
    Cluster,
    FloatArray,
    IntArray,
    Knowledge,
    Reason,
    ScoreTable,
    Shape,
    Snapshot,
    Tier,
    Waits,
    homogeneous,
)
from pal_slurm.policy import Circumstances, compose, plan
from pal_slurm.policy.memory import Memory, memory_of
from pal_slurm.policy.patience.choosy import MOST_OF_WAIT, MOST_S, SHARE
from pal_slurm.policy.seams import Offer, Wait, patiences
from tests.builders import leased

NAN = '{"version": 1, "begun": 0, "declining": [[1, 2, NaN]], "heads": []}'
CHOOSY = patiences.get("choosy")
ONE = Shape(gpus_per_node=1)
JOB = leased(until=10_000, submit=0, partitions=("gpu",), shape=ONE, time_limit_s=1000, why=Waits.UNSEEN)


def known(cluster: Cluster, score: float) -> Knowledge:
    scores = np.full((1, cluster.n_nodes, cluster.width), score)
    scores[0, 0, 0] = 1.0
    bins = (scores > 1.0).astype(np.int16)
    return Knowledge(ScoreTable(("A",), scores, bins, np.ones_like(scores, dtype=bool)))


def _alike(cluster: Cluster) -> tuple[FloatArray, IntArray, BoolArray]:
    ones = np.ones((1, cluster.n_nodes, cluster.width))
    return ones, ones.astype(np.int16) * 0, ones.astype(bool)


def test_median_gpus_are_taken_at_once() -> None:
    assert CHOOSY.waits(JOB, Offer(Tier.GPU, 1.0, 0.0)) is None
    assert CHOOSY.waits(JOB, Offer(Tier.GPU, 1.04, 0.0)) is None


def test_a_job_without_a_limit_is_not_kept_waiting() -> None:
    assert CHOOSY.waits(replace(JOB, time_limit_s=None), Offer(Tier.GPU, 3.0, 0.0)) is None


def test_a_job_that_can_get_nothing_better_does_not_wait_for_it() -> None:
    cluster = homogeneous(1, 2)
    whole = replace(JOB, shape=Shape(gpus_per_node=2))
    made = plan(Snapshot(100.0, cluster, (whole,)), known(cluster, 1.5), compose("pal", patience="choosy"))
    assert made.decisions[0].action is Action.START


def test_gpus_far_apart_are_declined_like_slow_ones() -> None:
    pair = replace(JOB, shape=Shape(max_nodes=2, gpus=2))
    far = Offer(Tier.CLUSTER, 2.0, 0.0, faster=0, span_cost=2.0)
    assert CHOOSY.waits(pair, far) == Wait(Reason.BETTER_SPAN_SOON, SHARE * 500)
    assert CHOOSY.waits(pair, far._replace(declined_s=SHARE * 500)) is None


def test_a_job_that_fits_on_one_node_waits_for_one_and_a_larger_one_does_not() -> None:
    cluster = homogeneous(3, 2)
    cluster = replace(cluster, gpu_free=np.array([[True, False]] * 3))
    app = App("far", "A", comm=(1.0, 1.0, 1.7, 1.7))
    known = Knowledge(ScoreTable(("A",), *_alike(cluster)), Apps({}, app))
    pair = replace(JOB, shape=Shape(max_nodes=2, gpus=2))
    three = replace(JOB, id=2, shape=Shape(max_nodes=3, gpus=3))
    for job, action, reason in (
        (pair, Action.WAIT, Reason.BETTER_SPAN_SOON),
        (three, Action.START, Reason.BEST_SPAN),
    ):
        made = plan(Snapshot(100.0, cluster, (job,)), known, compose("pal", patience="choosy"))
        assert [(d.action, d.reason) for d in made.decisions] == [(action, reason)]
    late = Memory(0.0, {pair.key: 100.0 - SHARE * 1000 * (1 - 1 / 1.7)})
    assert (
        plan(Snapshot(100.0, cluster, (pair,)), known, compose("pal", patience="choosy"), memory=late)
        .decisions[0]
        .action
        is Action.START
    )


@given(st.floats(1.06, 10.0), st.integers(60, 10**6), st.floats(0.0, 10**6))
def test_it_waits_for_a_part_of_what_the_bad_gpu_would_cost_and_not_longer(
    slowdown: float, limit: int, queued: float
) -> None:
    job = replace(JOB, time_limit_s=limit)
    lost = limit * (1 - 1 / slowdown)
    worth = min(max(MOST_S, MOST_OF_WAIT * queued), SHARE * lost)

    def after(declined: float) -> Wait | None:
        return CHOOSY.waits(job, Offer(Tier.GPU, slowdown, queued + declined, declined))

    waits = after(0.99 * worth)
    assert waits and waits.reason is Reason.BETTER_GPUS_SOON and waits.most_s == pytest.approx(worth)
    assert after(1.01 * worth + 1e-3) is None
    assert worth <= lost


def test_a_job_is_kept_half_an_hour_or_a_tenth_longer_than_it_has_waited() -> None:
    job = replace(JOB, time_limit_s=30 * 86_400)
    for queued, most in ((0.0, 1800.0), (3600.0, 1800.0), (50 * 3600.0, 5 * 3600.0)):
        waits = CHOOSY.waits(job, Offer(Tier.GPU, 1.5, queued))
        assert waits and waits.most_s == most


def test_the_gpu_that_one_job_declines_goes_to_one_that_does_not_mind() -> None:
    cluster = homogeneous(1, 2)
    free = np.array([[False, True]])  # only the slow one
    other = replace(JOB, id=2, time_limit_s=None)
    snapshot = Snapshot(100.0, replace(cluster, gpu_free=free), (JOB, other))
    made = plan(snapshot, known(cluster, 1.5), compose("pal", patience="choosy"))
    assert [(d.job, d.action, d.reason) for d in made.decisions] == [
        (1, Action.WAIT, Reason.BETTER_GPUS_SOON),
        (2, Action.START, Reason.BEST_SPAN),
    ]


def test_the_daemon_remembers_since_when_a_job_declines() -> None:
    cluster = homogeneous(1, 2)
    job = replace(JOB, submit=100)
    snapshot = Snapshot(100.0, replace(cluster, gpu_free=np.array([[False, True]])), (job,))
    none = replace(snapshot, pending=())
    memory = plan(none, known(cluster, 1.5), compose("pal", patience="choosy")).memory  # it led before the job came
    assert memory == Memory(100.0)
    actions = []
    for now in (100.0, 150.0, 266.0, 267.0):  # 0.5 * 1000 s * (1 - 1/1.5) = 166.7 s
        view = replace(snapshot, taken=now)
        made = plan(view, known(cluster, 1.5), compose("pal", patience="choosy"), memory=memory)
        memory = memory_of(json.loads(json.dumps(made.memory.plain())))
        assert memory == made.memory
        actions.append(made.decisions[0].action)
    assert actions == [Action.WAIT, Action.WAIT, Action.WAIT, Action.START]
    assert plan(none, known(cluster, 1.5), compose("pal", patience="choosy"), memory=memory).memory.declining == {}


@pytest.mark.parametrize("text", ["null", "7", "[]", "{}", '{"version": 2}', '{"version": 1, "begun": 0}', NAN])
def test_what_is_no_memory_is_none(text: str) -> None:
    assert memory_of(json.loads(text)) == Memory()


def test_a_job_is_not_kept_longer_however_often_pald_starts_anew() -> None:
    cluster = homogeneous(1, 2)
    snapshot = Snapshot(0.0, replace(cluster, gpu_free=np.array([[False, True]])), (replace(JOB, submit=100),))
    actions = []
    for now in (150.0, 200.0, 266.0, 267.0):
        made = plan(replace(snapshot, taken=now), known(cluster, 1.5), compose("pal", patience="choosy"))
        actions.append(made.decisions[0].action)
    assert actions == [Action.WAIT, Action.WAIT, Action.WAIT, Action.START]


def test_nobody_waits_for_what_no_free_gpu_could_give() -> None:
    """Slow GPUs in every choice of slots: what is offered on an idle cluster is the best there is."""
    cluster = homogeneous(16, 4, rack_size=8)
    scores = 1.0 + 0.1 * (np.arange(64).reshape(1, 16, 4) % 7)
    table = ScoreTable(("A",), scores, np.rint(scores * 10).astype(np.int16), np.ones_like(scores, dtype=bool))
    wide = replace(JOB, shape=Shape(1, 16, gpus=32))
    made = plan(Snapshot(100.0, cluster, (wide,)), Knowledge(table), compose("pal", patience="choosy"))
    assert [d.action for d in made.decisions] == [Action.START]


def test_nobody_declines_what_jobs_that_are_not_leased_would_take() -> None:
    cluster = replace(homogeneous(1, 2), gpu_free=np.array([[False, True]]))
    snapshot = Snapshot(100.0, cluster, (JOB,))
    assert plan(snapshot, known(cluster, 1.5), compose("pal", patience="choosy")).decisions[0].action is Action.WAIT
    beside = Circumstances(rivals=lambda job, since: True)
    assert (
        plan(snapshot, known(cluster, 1.5), compose("pal", patience="choosy"), beside).decisions[0].action
        is Action.START
    )
