"""`moves.mode: proven`: jobs with --requeue are moved where jobs of their user were seen to go on after a requeue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pal_slurm.learning.resumes import resumed
from pal_slurm.model import Ending, PastRun, RunEnd
from pal_slurm.sim.daemon import AtOnce
from pal_slurm.sim.slurm.manners import Manners
from pal_slurm.slurm.commands.accounts import read_runs
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import House

Make = Callable[..., House]
HOUR = 3600.0
THROUGH = [(PastRun(number, "u", HOUR + 60 * number, RunEnd.COMPLETED),) for number in (1, 2, 3)]


def twice(job: int, first: float, last: float, end: RunEnd = RunEnd.COMPLETED) -> tuple[PastRun, ...]:
    return (PastRun(job, "u", first, RunEnd.REQUEUED), PastRun(job, "u", last, end))


WENT_ON = [twice(job, 0.5 * HOUR, 0.55 * HOUR) for job in (11, 12, 13)]


def flat(*jobs: tuple[PastRun, ...]) -> Iterator[PastRun]:
    for of in jobs:
        yield from of


def found(*jobs: tuple[PastRun, ...], app: str = "bert", gpus: int = 2) -> frozenset[tuple[str, str]]:
    runs = list(flat(*jobs))
    return resumed(runs, {run.job: (app, gpus) for run in runs})


def test_who_needed_less_after_a_requeue_and_as_much_in_all_has_gone_on() -> None:
    assert found(*THROUGH, *WENT_ON) == {("u", "bert")}


@pytest.mark.parametrize(
    "against",
    [
        twice(20, 0.5 * HOUR, HOUR),
        twice(20, 0.5 * HOUR, 0.2 * HOUR, RunEnd.FAILED),
        twice(20, 0.1 * HOUR, 0.3 * HOUR, RunEnd.FAILED),
        twice(20, 0.3 * HOUR, 0.2 * HOUR),
    ],
    ids=["began anew", "failed", "failed soon", "did not do all of it"],
)
def test_one_that_did_not_is_enough_against_all_others(against: tuple[PastRun, ...]) -> None:
    assert found(*THROUGH, *WENT_ON, against) == frozenset()


@pytest.mark.parametrize(
    "jobs",
    [
        WENT_ON,
        [*THROUGH[:2], *WENT_ON],
        [*THROUGH, *WENT_ON[:2]],
        [*THROUGH, (PastRun(4, "u", 3 * HOUR, RunEnd.COMPLETED),), *WENT_ON],
        [*THROUGH, *(twice(job, 0.05 * HOUR, 0.99 * HOUR) for job in (11, 12, 13))],
        [*THROUGH, *(twice(job, 0.5 * HOUR, 0.5 * HOUR, RunEnd.OTHER) for job in (11, 12, 13))],
    ],
    ids=["none ran through", "few ran through", "few resumed", "not the same work", "too soon to tell", "cancelled"],
)
def test_where_nothing_can_be_told_nobody_is_proven(jobs: list[tuple[PastRun, ...]]) -> None:
    assert found(*jobs) == frozenset()


def test_another_users_jobs_and_another_application_prove_nothing() -> None:
    others = [tuple(PastRun(r.job + 100, "v", r.seconds, r.end) for r in of) for of in WENT_ON]
    assert found(*THROUGH, *others) == frozenset()
    runs = list(flat(*THROUGH, *WENT_ON))
    assert resumed(runs, {run.job: ("a" if run.job < 10 else "b", 2) for run in runs}) == frozenset()
    assert resumed(runs, {}) == frozenset()


def test_what_sacct_says_is_read_strictly() -> None:
    told = b"7|alice|REQUEUED|100\n7|alice|COMPLETED|50\n8|bob|CANCELLED by 1000|9\n9|bob|RUNNING|9\n"
    told += b"x|y|COMPLETED|1\n|||\n"
    told += b"10|eve|COMPLETED|-1\n11|eve|x|COMPLETED|5\n12|\xff|NODE_FAIL|3\n"
    assert [(r.job, r.user, r.seconds, r.end) for r in read_runs(told)] == [
        (7, "alice", 100.0, RunEnd.REQUEUED),
        (7, "alice", 50.0, RunEnd.COMPLETED),
        (8, "bob", 9.0, RunEnd.OTHER),
        (12, "\ufffd", 3.0, RunEnd.REQUEUED),
    ]


@pytest.mark.parametrize(
    ("mode", "words", "moved"),
    [
        ("proven", ("--requeue", "--comment=app:bert"), True),
        ("asked", ("--requeue", "--comment=app:bert"), False),
        ("proven", ("--comment=app:bert",), False),
        ("proven", ("--requeue", "--comment=app:other"), False),
        ("proven", ("--requeue",), False),
        ("proven", ("--requeue", "--comment=app:bert pal:stay"), False),
        ("proven", ("--no-requeue", "--comment=app:bert"), False),
        ("proven", ("--requeue", "-J", "bert-7"), False),  # the site's pattern names it, not its user
    ],
)
def test_who_said_requeue_and_is_proven_is_moved_and_nobody_else(
    make_house: Make, mode: str, words: tuple[str, ...], moved: bool
) -> None:
    patterns = [{"app": "bert", "job_name": "bert-*"}]
    house = make_house(**{**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], "mode": mode}, "patterns": patterns})
    past = [house.submit("--gres=gpu:2", "--comment=app:bert", runs=5.0, user="u") for _ in range(6)]
    house.live(60)
    resuming = house.pald.pald.cycle.movers.resuming
    assert resuming is not None and {house.state(job) for job in past} == {"COMPLETED"}
    shown = zip(past, [*THROUGH, *WENT_ON], strict=True)
    runs = [PastRun(job, run.user, run.seconds, run.end) for job, of in shown for run in of]
    resuming.accounts, resuming.beside, resuming.looked_at = lambda: runs, AtOnce("resuming"), None
    job = house.submit("--gres=gpu:2", *words, runs=5000.0, user="u", manners=Manners(0.5))
    house.live(10)
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(20)
    assert bool(moves_of(house, job)) == moved and house.state(job) == "RUNNING"
    if moved:
        assert the_move(house, job).ending is Ending.MOVED and house.where(job) == {"n3": (1, 3)}
