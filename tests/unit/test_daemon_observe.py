"""What jobs got, also of jobs whose devices Slurm has already taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.daemon.observe import FEWEST, Observer
from pal_slurm.model import App, Apps, Knowledge, homogeneous, neutral_scores
from pal_slurm.report.jobs import job_rows
from pal_slurm.report.life import life_of, life_sentences
from pal_slurm.store import DecisionRepo, OutcomeRepo, Store
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


def test_who_has_parts_of_gpus_by_shards_of_his_own_is_written_down_as_one_who_shares(store: Store) -> None:
    outcomes = OutcomeRepo(store, "c")
    own = replace(JOB, gpu_job=False, gpus=((),), parts=((1,),))
    assert Observer(outcomes).record_changes((own,), CLUSTER, KNOWLEDGE, {}, 511.0) == 1
    assert [(o.gpus, o.shared) for o in outcomes.of_job(7)] == [(((1,),), True)]


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


def test_what_a_task_of_an_array_got_is_told_under_the_id_that_its_user_knows(
    make_house: Callable[..., House],
) -> None:
    """Slurm gives each task a job id of its own as it starts; decisions are made about the array."""
    slow = scores(A=[[1.3, 1.0, 1.2, 1.1]] * 2)
    house = make_house(count=2, knowledge=Knowledge(slow, Apps()))
    store, outcomes = house.pald.pald.store, house.pald.pald.cycle.books.observer.outcomes
    cluster = outcomes._cluster
    array = house.submit("--array=0-2", "--gres=gpu:1", "-t", "9", runs=60.0)
    house.live(300)
    got = outcomes.of_array(array)
    own = {o.task: o.job for o in got}
    assert set(own) == {0, 1, 2} and len(set(own.values())) == 3
    for task, number in own.items():
        told = list(life_sentences(life_of(store, cluster, array, task)))
        assert any(line.startswith(f"Task {task}: It got") and "as pinned" in line for line in told)
        assert told == list(life_sentences(life_of(store, cluster, number, task)))
    assert sum("It got" in line for line in life_sentences(life_of(store, cluster, array))) == 3
    rows = job_rows(DecisionRepo(store, cluster).newest(), outcomes.newest(), 100)
    ended = [(row["job"], row["task"]) for row in rows if row["action"] == "ended"]
    assert sorted(ended) == [(array, 0), (array, 1), (array, 2)]
    assert not [row for row in rows if row["action"] == "pin"]
    assert len(rows) == 3, "of the array as a whole there is nothing left to say"


def test_an_array_of_which_tasks_wait_has_a_row_for_those(make_house: Callable[..., House]) -> None:
    house = make_house(count=1, knowledge=Knowledge(scores(A=[[1.3, 1.0, 1.2, 1.1]]), Apps()))
    store, outcomes = house.pald.pald.store, house.pald.pald.cycle.books.observer.outcomes
    array = house.submit("--array=0-5%2", "--gres=gpu:1", "-t", "9", runs=60.0)
    seen = set()
    for _ in range(60):
        house.live(10)
        rows = job_rows(DecisionRepo(store, outcomes._cluster).newest(), outcomes.newest(), 100)
        whole = [row for row in rows if row["task"] is None]
        waits = len(house.job(array).job().array_tasks) if house.state(array) == "PENDING" else 0
        assert len(whole) <= 1 and (bool(whole) or not waits)
        seen.add((bool(waits), bool(whole)))
    assert (True, True) in seen and (False, False) in seen and len(rows) == 6


def test_a_task_that_waits_has_the_story_of_its_array(make_house: Callable[..., House]) -> None:
    house = make_house(count=1, knowledge=Knowledge(scores(A=[[1.3, 1.0, 1.2, 1.1]]), Apps()))
    store, cluster = house.pald.pald.store, house.pald.pald.cycle.books.observer.outcomes._cluster
    plain = house.submit("--gres=gpu:4", "-t", "60", runs=3000.0)
    array = house.submit("--array=0-9", "--gres=gpu:2", "-t", "9", runs=60.0)
    house.live(60)
    assert house.state(plain) == "RUNNING"
    told = list(life_sentences(life_of(store, cluster, array, 7)))
    assert f"  Job {array}, each task of the array, asks for 2 GPUs" in told[1] and "  It waits." in told
    assert any("its lease was renewed" in line for line in told)
    assert told == list(life_sentences(life_of(store, cluster, array)))
    assert life_of(store, cluster, plain, 7).empty
