"""Movers of one user at the expense of others: long saves, more than they had, promises that nothing comes of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.config.moves import MovesSection
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.moves.machine import next_step
from pal_slurm.daemon.moves.scene import Do, Scene
from pal_slurm.model import EditKind, Ending, Intent, JobState, Outcome, Shape
from pal_slurm.sim.slurm.manners import Manners, requeues
from tests.moving import QUICK_MOVES, Wanted, moves_of, there
from tests.simpald import House
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
