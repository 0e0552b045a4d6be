"""What jobs got, also of jobs whose devices Slurm has already taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.daemon.observe import FEWEST, Observer
from pal_slurm.model import App, Apps, Knowledge, homogeneous, neutral_scores
from pal_slurm.store import OutcomeRepo, Store
from tests.builders import running, scores
from tests.simpald import House

CLUSTER = homogeneous(4, 4)
KNOWLEDGE = Knowledge(neutral_scores(CLUSTER), Apps())
JOB = running(7, {"n2": (0, 1)}, submit=500, start=510)


def test_a_job_whose_node_fails_has_no_devices_while_it_completes_and_that_is_its_end(store: Store) -> None:
    """Seen on 26.05: a node stops answering at the launch, and until it is given up the job completes there."""
    outcomes = OutcomeRepo(store, "c")
    observer = Observer(outcomes)
    assert observer.record_changes((JOB,), CLUSTER, KNOWLEDGE, {}, 511.0) == 1
    assert observer.record_changes((replace(JOB, gpus=((),)),), CLUSTER, KNOWLEDGE, {}, 531.0) == 1
    assert [(o.gpus, o.end) for o in outcomes.of_job(7)] == [(((0, 1),), 531)]


def test_a_job_first_seen_without_its_devices_is_written_down_when_they_are_told(store: Store) -> None:
    outcomes = OutcomeRepo(store, "c")
    observer = Observer(outcomes)
    several = replace(JOB, nodes=("n2", "n3"), gpus=((0, 1), ()))
    assert observer.record_changes((several,), CLUSTER, KNOWLEDGE, {}, 511.0) == 0
    assert observer.record_changes((replace(several, gpus=((0, 1), (2, 3))),), CLUSTER, KNOWLEDGE, {}, 512.0) == 1
    assert outcomes.of_job(7)[0].gpus == ((0, 1), (2, 3))


def test_the_share_of_limits_that_jobs_use_is_the_median_of_those_that_were_seen_to_end(store: Store) -> None:
    observer = Observer(OutcomeRepo(store, "c"))
    assert observer.of_limit is None
    for i in range(FEWEST):
        ran = replace(JOB, id=100 + i, start=1000, time_limit_s=400)
        endless = replace(JOB, id=500 + i, start=1000, time_limit_s=None)
        observer.record_changes((ran, endless), CLUSTER, KNOWLEDGE, {}, 1001.0)
        assert observer.of_limit is None
        observer.record_changes((), CLUSTER, KNOWLEDGE, {}, 1100.0 if i % 3 else 9000.0)  # a third to their limits
    assert observer.of_limit == 0.25


def test_patience_by_value_waits_past_choosys_bound_once_pald_knows_what_share_of_limits_jobs_use(
    make_house: Callable[..., House],
) -> None:
    """A GPU is free on each of two nodes; the others for two hours by their limits, which nobody uses up."""
    table = scores(A=[[1.0] * 4] * 2)
    knowledge = Knowledge(table, Apps({}, App("?", "A", comm=(1.0, 1.0, 3.0, 3.0))))
    started = {}
    for known in (True, False):
        house = make_house(count=2, knowledge=knowledge, policy={"name": "packed", "patience": "value"})
        if known:
            for _ in range(FEWEST // 4):
                for _ in range(8):
                    house.submit("--gres=gpu:1", "-t", "2", runs=60.0)
                house.live(90)
            assert house.pald.pald.cycle.books.observer.of_limit == pytest.approx(0.5, abs=0.1)
        for _ in range(2):
            house.submit("--gres=gpu:3", "-t", "120", runs=6600.0)
        house.live(30)
        pair = house.submit("-N1-2", "--gpus=2", "-t", "600", runs=600.0)
        house.live(3600)
        started[known] = house.state(pair) != "PENDING"
    assert started == {True: False, False: True}
