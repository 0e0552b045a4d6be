"""What jobs got, also of jobs whose devices Slurm has already taken away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from pal_slurm.daemon.observe import RECALLED, Observer
from pal_slurm.model import (
    App,
    Apps,
    Hint,
    Job,
    JobState,
    Knowledge,
    RunTimes,
    Snapshot,
    homogeneous,
    named,
    neutral_scores,
)
from pal_slurm.report.jobs import job_rows
from pal_slurm.report.life import life_of, life_sentences
from pal_slurm.store import DecisionRepo, JobOutcome, OutcomeRepo, Store
from tests.builders import running, scores, snapshot
from tests.simpald import House

CLUSTER = homogeneous(4, 4)
KNOWLEDGE = Knowledge(neutral_scores(CLUSTER), Apps())
JOB = running(7, {"n2": (0, 1)}, submit=500, start=510)


def look(at: float, *jobs: Job, ended: Mapping[int, int] | None = None, over: Sequence[Job] = ()) -> Snapshot:
    return replace(snapshot(*jobs, cluster=CLUSTER, now=at), ended=ended or {}, over=tuple(over))


def test_a_job_whose_node_fails_has_no_devices_while_it_completes_and_that_is_its_end(store: Store) -> None:
    """Seen on 26.05: a node stops answering at the launch, and until it is given up the job completes there."""
    outcomes = OutcomeRepo(store, "c")
    observer = Observer(outcomes)
    assert observer.record_changes(look(511.0, JOB), KNOWLEDGE, {}) == 1
    assert observer.record_changes(look(531.0, replace(JOB, gpus=((),))), KNOWLEDGE, {}) == 1
    assert [(o.gpus, o.end) for o in outcomes.of_job(7)] == [(((0, 1),), 531)]


def test_a_job_first_seen_without_its_devices_is_written_down_when_they_are_told(store: Store) -> None:
    outcomes = OutcomeRepo(store, "c")
    observer = Observer(outcomes)
    several = replace(JOB, nodes=("n2", "n3"), gpus=((0, 1), ()))
    assert observer.record_changes(look(511.0, several), KNOWLEDGE, {}) == 0
    assert observer.record_changes(look(512.0, replace(several, gpus=((0, 1), (2, 3)))), KNOWLEDGE, {}) == 1
    assert outcomes.of_job(7)[0].gpus == ((0, 1), (2, 3))


def test_who_has_parts_of_gpus_by_shards_of_his_own_is_written_down_as_one_who_shares(store: Store) -> None:
    outcomes = OutcomeRepo(store, "c")
    own = replace(JOB, gpu_job=False, gpus=((),), parts=((1,),))
    assert Observer(outcomes).record_changes(look(511.0, own), KNOWLEDGE, {}) == 1
    assert [(o.gpus, o.shared) for o in outcomes.of_job(7)] == [(((1,),), True)]


RUNS = replace(JOB, name="train", time_limit_s=600, hint=Hint("bert"))
OVER = replace(RUNS, state=JobState.OTHER, gpus=(), end=512)
AGAIN = replace(RUNS, start=900, restarts=1)
WAITS = replace(RUNS, state=JobState.PENDING, nodes=(), gpus=(), start=None, restarts=1)
RATED = Knowledge(
    scores(A=[[1.0] * 4, [2.0] * 4, [1.0] * 4, [1.0] * 4]), Apps({"bert": App("bert", "A", {"fast": 1.0, "gpu": 3.0})})
)
TWICE = (look(520, RUNS), look(610, RUNS), look(700, WAITS), look(910, AGAIN), look(930, AGAIN), look(950))


@pytest.mark.parametrize(
    ("looks", "knowledge", "taught"),
    [
        ([look(520, RUNS), look(540, RUNS), look(560)], KNOWLEDGE, 30.0),  # it was seen for so long
        ([look(520, RUNS), look(560, ended={7: 557})], KNOWLEDGE, 47.0),  # Slurm tells
        ([look(520, RUNS), look(590)], KNOWLEDGE, None),  # nobody looked for too long
        ([look(520, RUNS), look(590, ended={7: 557})], KNOWLEDGE, 47.0),
        ([look(520, RUNS), look(560, replace(RUNS, completing=True, end=551)), look(570)], KNOWLEDGE, 41.0),
        ([look(520, RUNS), look(530, RUNS), look(560)], RATED, 20.0 / 6),  # on its best GPUs
        (TWICE, KNOWLEDGE, 130.0),
        ((TWICE[0], look(890, RUNS), *TWICE[3:]), KNOWLEDGE, 410.0),  # it waited between two looks
        (TWICE[3:], KNOWLEDGE, None),  # nobody saw its first run
        ((*TWICE[:3], look(710)), KNOWLEDGE, None),  # cancelled as it waited
        ([look(520, replace(RUNS, user="")), look(560)], KNOWLEDGE, None),  # nobody's
        ([look(500), look(520, over=[OVER]), look(530, over=[OVER])], KNOWLEDGE, 2.0),  # nobody saw it run
        ([look(520, over=[OVER]), look(530, over=[OVER])], KNOWLEDGE, None),  # before our time
        ([look(500), look(511, replace(RUNS, end=None)), look(520, over=[OVER], ended={7: 512})], KNOWLEDGE, 2.0),
        ([look(500), look(520, over=[replace(OVER, restarts=1)])], KNOWLEDGE, None),  # its last run alone
        ([look(520, replace(RUNS, gpu_job=False, gpus=((),), parts=((1,),))), look(560)], KNOWLEDGE, None),
    ],
)
def test_a_job_that_ends_teaches_how_long_it_ran_on_the_best_gpus(
    store: Store, looks: Sequence[Snapshot], knowledge: Knowledge, taught: float | None
) -> None:
    observer, wanted = Observer(OutcomeRepo(store, "c")), RunTimes()
    for seen in looks:
        observer.record_changes(seen, knowledge, {})
    if taught is not None:
        wanted.ended("u", "bert", named("train"), 600.0, taught)
    for job in (WAITS, replace(WAITS, name="other"), replace(WAITS, user="other", time_limit_s=None)):
        assert observer.run_times.of(job) == wanted.of(job)


CUT = replace(OVER, cut=True)


@pytest.mark.parametrize("known_s", [None, 3000.0])
@pytest.mark.parametrize(
    ("looks", "ran_s", "cut"),
    [
        ([look(520, RUNS), look(560, over=[replace(OVER, end=557)], ended={7: 557})], 47.0, False),
        ([look(520, RUNS), look(560, over=[replace(CUT, end=557)], ended={7: 557})], 47.0, True),
        ([look(520, RUNS), look(9000, over=[replace(CUT, end=8510)], ended={7: 8510})], 8000.0, True),  # for long
        ([look(500), look(520, over=[CUT])], 2.0, True),  # nobody saw it run
        ([*TWICE[:5], look(950, over=[replace(CUT, start=900, end=940)], ended={7: 940})], 140.0, True),
        ([look(520, RUNS), look(560)], 10.0, False),  # Slurm does not tell
    ],
)
def test_a_job_that_did_not_run_to_its_end_makes_no_estimate_shorter(
    store: Store, looks: Sequence[Snapshot], ran_s: float, cut: bool, known_s: float | None
) -> None:
    """Nor where a pald that starts anew reads it up."""
    outcomes = OutcomeRepo(store, "c")
    observer, none = Observer(outcomes), RunTimes()
    if known_s is not None:
        for times in (observer.run_times, none):
            for _ in range(20):
                times.ended("u", "bert", named("train"), 600.0, known_s)
    for seen in looks:
        observer.record_changes(seen, KNOWLEDGE, {})
    was, now = none.of(WAITS).seconds, observer.run_times.of(WAITS).seconds
    if ran_s > was:
        assert now > was or now == 600.0
    else:
        assert now == was if cut else now < was
    anew = Observer(outcomes)
    anew.record_changes(look(9000), KNOWLEDGE, {})
    shorter = anew.run_times.of(WAITS).seconds < RunTimes().of(WAITS).seconds
    assert not shorter if cut else shorter


def test_slurm_is_asked_how_jobs_ended_of_which_it_tells_no_more(store: Store) -> None:
    observer = Observer(OutcomeRepo(store, "c"))
    waits, task = replace(WAITS, id=8), replace(RUNS, id=9, array_id=9, array_task=0)
    assert observer.vanished(look(520, RUNS, waits, task)) == []
    assert observer.vanished(look(521, replace(RUNS, completing=True), replace(WAITS, id=8), task)) == []
    assert observer.vanished(look(522)) == [8, 7]
    assert observer.vanished(look(523)) == []


def test_a_pald_that_starts_learns_from_what_was_written_down(store: Store) -> None:
    """Of each user the last jobs; who waits or runs is not done; what one user has run leaves out nobody else's."""
    outcomes = OutcomeRepo(store, "c")
    written = []

    def wrote(job: int, user: str, start: int, end: int | None, shared: bool = False) -> None:
        got = JobOutcome(job, 500, start, "A", ("n1",), ((0,),), end=end, user=user, shared=shared, app="bert")
        written.append(replace(got, limit_s=600, named=named("train")))

    for number in range(RECALLED + 5):
        wrote(1000 + number, "many", 2000 + number, 2002 + number)
    wrote(1, "u", 600, 630)
    wrote(1, "u", 700, 770)  # a job of two runs
    wrote(2, "u", 800, 899)  # it waits again
    wrote(3, "u", 900, None)
    wrote(4, "", 600, 630)
    wrote(5, "u", 600, 630, shared=True)
    outcomes.record(written)
    observer, wanted = Observer(outcomes), RunTimes()
    observer.record_changes(look(9000, replace(WAITS, id=2), replace(RUNS, id=3, start=900)), KNOWLEDGE, {})
    wanted.ended("u", "bert", named("train"), 600.0, 100.0)
    for _ in range(RECALLED):
        wanted.ended("many", "bert", named("train"), 600.0, 2.0)
    for user in ("u", "many", "other"):
        job = replace(WAITS, user=user)
        assert observer.run_times.of(job).seconds == pytest.approx(wanted.of(job).seconds)


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
