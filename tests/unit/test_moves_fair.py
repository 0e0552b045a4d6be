"""Movers of one user at the expense of others: long saves, more than they had, promises that nothing comes of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.config.moves import MovesSection
from pal_slurm.daemon.moves.budget import bounds, silent
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.moves.machine import next_step
from pal_slurm.daemon.moves.scene import Do, Scene
from pal_slurm.model import EditKind, Ending, Intent, JobState, Outcome, Reason, Shape
from pal_slurm.report.why import sentences
from pal_slurm.sim.slurm.manners import Manners, requeues
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import SETUP, House
from tests.unit.test_moves_held import MOVE, REQUEUE, RUNS, TWO

Make = Callable[..., House]
SAVES_LONG = Manners(0.5, 400.0, requeues)


def running(house: House, words: str, user: str, manners: Manners = SAVES_LONG) -> int:
    job = house.submit(f"--comment={words}", "--gres=gpu:1", runs=5000.0, user=user, manners=manners)
    house.live(4)
    assert house.state(job) == "RUNNING"
    return job


def test_one_users_long_saves_leave_half_of_the_moves_that_go_on_at_a_time_to_others(make_house: Make) -> None:
    house = make_house(**{**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], "at_once": 4}})
    slow = [running(house, "pal:move=USR1@500", "u") for _ in range(4)]
    other = running(house, "pal:move", "v", Manners(0.5))
    wanted = Wanted(house)
    for number, job in enumerate(slow):
        wanted.move(job, there("n3", number))
    house.live(20)
    assert sum(len(moves_of(house, job)) for job in slow) == 2
    wanted.move(other, there("n4", 2))
    house.live(20)
    assert house.where(other) == {"n4": (2,)}


@pytest.mark.parametrize(("seconds", "moved"), [(600, 1), (601, 0)])
def test_nobodys_target_stands_empty_for_more_than_ten_minutes(make_house: Make, seconds: int, moved: int) -> None:
    house = make_house(**QUICK_MOVES)
    job = running(house, f"pal:move=USR1@{seconds}", "u")
    Wanted(house).move(job, there("n3", 1))
    house.live(20)
    assert len(moves_of(house, job)) == moved


SILENT = Manners(0.5, 0.0, None)
ANSWERS_LATE = Manners(0.5, 30.0, requeues)


def with_a_free_node(make_house: Make, manners: Manners, words: str = "pal:move=USR1@300", **more: object) -> House:
    """A mover (job 1) on n1, others beside it, and n2 free."""
    house = make_house(count=2, **{**QUICK_MOVES, **more})
    assert running(house, words, "alice", manners) == 1
    house.submit("--gres=gpu:3", runs=5000.0, user="alice")
    house.live(4)
    assert set(house.where(1)) | set(house.where(2)) == {"n1"}
    return house


@pytest.mark.parametrize(
    ("manners", "words", "ends"),
    [
        (SILENT, "pal:move=USR1@300", Ending.STAYED),
        (SILENT, "pal:move=USR1@60!", Ending.STAYED),
        (ANSWERS_LATE, "pal:move=USR1@300", Ending.ELSEWHERE),
    ],
)
def test_no_target_is_kept_from_a_job_that_could_start_there_while_its_mover_saves(
    make_house: Make, manners: Manners, words: str, ends: Ending
) -> None:
    house = with_a_free_node(make_house, manners, words)
    Wanted(house).move(1, there("n2", 1))
    while not moves_of(house, 1):
        house.live(0.5)
    bobs = house.submit("--gres=gpu:4", user="bob", runs=2000.0)
    house.live(8)
    assert set(house.where(bobs)) == {"n2"}
    house.live(400)
    (move,) = moves_of(house, 1)
    assert (move.ending, set(house.where(1)), house.job(1).record.nice or 0) == (ends, {"n1"}, 0)
    assert house.job(1).record.restarts == (ends is Ending.ELSEWHERE)


def test_a_requeued_mover_has_its_target_kept_for_half_a_minute_and_why_says_so(make_house: Make) -> None:
    house = with_a_free_node(make_house, Manners(term_s=200.0), "pal:move", setup=replace(SETUP, kill_wait_s=200.0))
    Wanted(house).move(1, there("n2", 1))
    while house.job(1).record.state != "COMPLETING":
        house.live(0.5)
    bobs = house.submit("--gres=gpu:4", user="bob", runs=2000.0)
    house.live(15)
    assert house.state(bobs) == "PENDING"
    (why,) = house.pald.pald.cycle.books.decisions.of_job(bobs)
    assert why.decision.reason is Reason.KEPT_FOR_MOVER and "to be moved there" in " ".join(sentences(why))
    house.live(25)
    assert set(house.where(bobs)) == {"n2"}
    house.live(300)
    assert set(house.where(1)) == {"n1"}


def test_whose_jobs_do_not_answer_is_not_asked_soon_again_whatever_job_or_application(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)

    def asked(job: int, slot: int) -> bool:
        Wanted(house).move(job, there("n4", slot))
        house.live(60)
        return bool(moves_of(house, job))

    first = running(house, "pal:move=USR1@5", "alice", SILENT)
    assert asked(first, 0) and the_move(house, first).ending is Ending.STAYED
    second = running(house, "app:other pal:move=USR1@5", "alice", SILENT)
    assert not asked(second, 1)
    assert asked(running(house, "pal:move=USR1@5", "bob", SILENT), 1)
    assert asked(running(house, "pal:move", "alice", Manners(0.5)), 2)  # who need not be asked first is not meant
    house.live(3600)
    assert asked(running(house, "pal:move=USR1@5", "alice", SILENT), 0)


@pytest.mark.parametrize(
    ("endings", "rests_s"),
    [
        ("", 0),
        ("s", 3600),
        ("ss", 7200),
        ("sss", 14_400),
        ("sssssss", 86_400),
        ("ssm", 0),
        ("ssms", 3600),
    ],
)
def test_after_each_silence_a_user_is_asked_half_as_often_until_one_answers(endings: str, rests_s: int) -> None:
    asked = replace(MOVE, signal="USR1", ahead_s=60)
    week = [
        replace(asked, began_at=1000.0 + n, ended_at=1090.0 + n, ending=Ending.STAYED if how == "s" else Ending.MOVED)
        for n, how in enumerate(endings)
    ]
    end = 1090.0 + len(endings) - 1
    assert silent(week, end + rests_s - 1) == (frozenset("u") if rests_s else frozenset())
    assert silent(week, end + rests_s + 1) == frozenset()


@pytest.mark.parametrize(
    ("other", "is_silent", "idle_s"),
    [
        ({}, True, 90.0),
        ({"ended_at": 1030.0}, False, 30.0),  # its user took his word back
        ({"unanswered": True}, False, 90.0),
        ({"unasked": True, "ended_at": 1000.0}, False, 0.0),
        ({"signal": ""}, False, 0.0),
        ({"partner": 8}, True, 0.0),  # its target was in use
        ({"target": None}, True, 0.0),
    ],
)
def test_a_target_that_stood_idle_for_nothing_counts_in_the_sum_of_moves(
    other: dict[str, object], is_silent: bool, idle_s: float
) -> None:
    stayed = replace(MOVE, signal="USR1", ahead_s=60, ended_at=1090.0, ending=Ending.STAYED)
    stayed = replace(stayed, **other)  # type: ignore[arg-type]
    assert bool(silent([stayed], 1100.0)) is is_silent
    assert bounds(MovesSection(), [stayed], 1100.0).lost_gpu_s == idle_s * stayed.gpus


HAD = replace(MOVE, time_limit_s=3600, cpus=4)
WAITS = replace(
    RUNS, state=JobState.PENDING, restarts=1, nice=-500, nodes=(), gpus=(), eligible=1030, time_limit_s=3600,
    shape=Shape(1, 1, 2, cpus=4), request=TWO,
)  # fmt: skip
STEPS = [Intent(1, 100, REQUEUE, 1, 1000.0, outcome=Outcome.DONE, move=HAD)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, ""),
        ({"time_limit_s": 1800}, ""),
        ({"time_limit_s": 7200}, "it asks for more time now"),
        ({"time_limit_s": None}, "it asks for more time now"),
        ({"shape": Shape(1, 1, 2, cpus=64)}, "it asks for more CPUs now"),
    ],
)
def test_who_asks_for_more_time_or_cpus_while_he_is_moved_waits_in_his_turn(
    changed: dict[str, object], said: str
) -> None:
    """What stands ahead of the queue is what the job had."""
    job = replace(WAITS, **changed)  # type: ignore[arg-type]
    step = next_step(HAD, STEPS, job, Scene(1005.0, same_second=True))
    assert isinstance(step, Do)
    assert (step.edit.kind is EditKind.RENICE) == bool(said) and step.handed == said
    handed = next_step(replace(HAD, handed="its target is gone"), STEPS, job, Scene(1005.0))
    assert (isinstance(handed, Do) and handed.edit.kind is EditKind.RENICE) == bool(said)


def test_one_users_moves_that_fall_short_make_nobody_elses_doubted() -> None:
    good = [replace(MOVE, user=f"g{n}", ending=Ending.MOVED, gain_s=600.0, real_gain_s=580.0) for n in range(3)]
    bad = [replace(MOVE, user="b", ending=Ending.MOVED, gain_s=6000.0, real_gain_s=0.0) for _ in range(4)]
    alone = Costs.learned(MovesSection(), good).doubt
    assert Costs.learned(MovesSection(), [*good, *bad]).doubt == pytest.approx(alone, rel=0.05)
    also = [replace(move, user="c") for move in bad]
    assert Costs.learned(MovesSection(), [*good, *bad, *also]).doubt > 3
