"""Movers that somebody holds, edits or suspends: nobody waits for ever by a move, or gets ahead by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.daemon.moves.machine import next_step
from pal_slurm.daemon.moves.scene import Do, Later, Over, Scene
from pal_slurm.model import (
    Consent,
    EditKind,
    Ending,
    Given,
    Intent,
    Job,
    JobState,
    Move,
    Outcome,
    Placement,
    Renice,
    Request,
    Requeue,
    Warn,
)
from pal_slurm.sim.slurm.controller import FIRST_PRIORITY
from pal_slurm.sim.slurm.manners import Manners
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import House

Make = Callable[..., House]
WELL = Manners(term_s=0.5)
TWO = Request(per_node="gres/gpu:2")
MOVE = Move(
    7, 100, "u", 0, Placement(("n1",), ((0, 1),), exact=True), TWO, 1000.0,
    operation=1, target=there("n3", 1, 3), ahead=-500,
)  # fmt: skip
REQUEUE = Requeue(7, until=1030, original=TWO, nice=-500)
RUNS = Job(
    7, JobState.RUNNING, 100, "u", priority=5, request=TWO, nodes=("n1",), gpus=((0, 1),), requeue=True, start=200,
    consent=Consent(Given.ASKED),
)  # fmt: skip


def a_step(edit: Requeue | Renice | Warn, outcome: Outcome | None, at: float = 1000.0) -> Intent:
    return Intent(1, 100, edit, 1, at, outcome=outcome, move=MOVE)


def running(house: House, *options: str, manners: Manners = WELL) -> int:
    job = house.submit(*options, manners=manners, runs=5000.0)
    house.live(5)
    assert house.state(job) == "RUNNING"
    return job


def hold_as_it_runs(house: House, job: int) -> None:
    """scontrol hold: its priority is 0 at once, and it runs on."""
    house.job(job).record.priority = 0
    house.job(job).changed()


def test_a_running_job_that_is_held_is_not_moved_for_it_would_not_start_again(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = running(house, "--comment=pal:move", "--gres=gpu:2")
    hold_as_it_runs(house, job)
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(30)
    assert moves_of(house, job) == [] and house.job(job).record.restarts == 0 and house.state(job) == "RUNNING"


def test_a_job_that_is_held_after_it_was_asked_to_save_runs_on(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = running(house, "--comment=pal:move=USR1@30!", "--gres=gpu:2", manners=Manners(0.5, 0.0, None))
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(5)
    hold_as_it_runs(house, job)
    house.live(60)
    assert the_move(house, job).ending is Ending.STAYED and house.job(job).record.restarts == 0


def test_its_time_to_save_belongs_to_its_last_minutes(make_house: Make) -> None:
    """Else it would be requeued when it is about to end."""
    house = make_house(**{**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], "last_s": 900}})
    job = running(house, "--comment=pal:move=USR1@600", "--gres=gpu:2", "-t", "20", manners=Manners(0.5, 0.0, None))
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(30)
    assert moves_of(house, job) == []


def test_a_mover_that_is_held_takes_no_other_jobs_turn(make_house: Make) -> None:
    """Who holds his own jobs between their runs would else keep everybody's from being moved."""
    house = make_house(**{**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], "at_once": 1}})
    job = running(house, "--comment=pal:move", "--gres=gpu:2", manners=Manners(term_s=3.0))
    other = running(house, "--comment=pal:move", "--gres=gpu:1")
    Wanted(house).move(job, there("n3", 1, 3))
    while house.job(job).record.state != "PENDING":
        house.live(0.1)
    house.controller.hold(job)
    house.live(5)
    Wanted(house).move(other, there("n3", 1))  # nor is its target kept for it
    house.live(30)
    assert house.where(other) == {"n3": (1,)} and house.state(job) == "PENDING"
    house.controller.release(job)
    house.live(60)
    assert house.state(job) == "RUNNING"


def on_its_way_ahead(house: House, manners: Manners = Manners(term_s=20.0)) -> int:  # noqa: B008
    """A mover whose old run is just ending; a head waits for all GPUs, and bears less priority than it."""
    job = running(house, "--comment=pal:move", "--gres=gpu:2", "-t", "60", manners=manners)
    running(house, "-N4", "--gres=gpu:2", "-t", "60")
    house.submit("-N4", "--gres=gpu:3", "-t", "60")
    house.live(3)
    taken = {node: set(slots) for j in house.controller.running for node, slots in house.where(j).items()}
    free = [n for n in ("n1", "n2", "n3", "n4") if n not in house.where(job) and len(taken[n]) == 2]
    Wanted(house).move(job, there(free[0], *sorted({0, 1, 2, 3} - set(house.where(job)) - taken[free[0]])))
    while house.job(job).record.state != "COMPLETING":
        house.live(0.1)
    assert (house.job(job).record.nice or 0) < 0
    return job


@pytest.mark.parametrize("state", ["COMPLETING", "PENDING"])
@pytest.mark.parametrize("by", ["JobHeldUser", "JobHeldAdmin"])
def test_a_job_that_is_held_on_its_way_is_no_more_ahead_of_the_queue_and_stays_held(
    make_house: Make, state: str, by: str
) -> None:
    """Else it would ask for more while it is held, and start ahead of all when it is released."""
    house = make_house(**QUICK_MOVES)
    job = on_its_way_ahead(house)
    while house.job(job).record.state != state:
        house.live(0.1)
    house.controller.hold(job, by)
    house.live(4)
    record = house.job(job).record
    assert (record.nice, record.priority, record.reason, house.job(job).held) == (0, 0, by, True)
    house.live(120)
    assert house.state(job) == "PENDING" and house.job(job).record.reason == by
    last = house.controller._priority
    house.controller.release(job)
    assert house.job(job).record.priority == last
    for other in [number for number in house.controller.pending if number != job]:
        house.controller.cancel(other)
    house.live(60)
    assert house.state(job) == "RUNNING"


@pytest.mark.parametrize("state", ["COMPLETING", "PENDING"])
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"time_limit_min": 600}, "it asks for more time now"),
        ({"per_node": "gres/gpu:4"}, "it asks for other GPUs now"),
        ({"per_node": "gres/gpu:g0:1,gres/gpu:g1:1,gres/gpu:g2:1"}, "it asks for more GPUs now"),
        ({"partition": "other"}, "its partition is now other"),
    ],
)
def test_a_job_that_asks_for_more_on_its_way_is_no_more_ahead_of_the_queue(
    make_house: Make, state: str, more: dict[str, object], said: str
) -> None:
    house = make_house(**QUICK_MOVES)
    job = on_its_way_ahead(house)
    while house.job(job).record.state != state:
        house.live(0.1)
    house.user_edits(job, **more)
    house.live(4)
    assert house.job(job).record.nice == 0 and the_move(house, job).handed == said


@pytest.mark.parametrize("state", ["COMPLETING", "PENDING"])
def test_who_writes_a_lower_priority_over_our_nice_keeps_nothing_of_it(make_house: Make, state: str) -> None:
    """Slurm then sets the nice to 0, and priority/basic keeps the priority for good."""
    house = make_house(**QUICK_MOVES)
    job = on_its_way_ahead(house)
    while house.job(job).record.state != state:
        house.live(0.1)
    house.controller.lower(job, FIRST_PRIORITY + 40_000)
    assert (house.job(job).record.priority, house.job(job).record.nice) == (FIRST_PRIORITY + 40_000, 0)
    house.live(4)
    assert (house.job(job).record.priority or 0) < FIRST_PRIORITY and house.job(job).record.nice == 0
    renices = house.intents(job, EditKind.RENICE)
    house.live(60)
    assert len(renices) == 1 and len(house.intents(job, EditKind.RENICE)) <= 2


def test_a_requeue_that_was_refused_but_whose_nice_stands_gives_it_back() -> None:
    """`scontrol requeue` and the update beside it are two requests to slurmctld."""
    job, scene = replace(RUNS, nice=-500), Scene(1010.0)
    refused = a_step(REQUEUE, Outcome.REFUSED)
    assert next_step(MOVE, [refused], job, scene) == Do(Renice(7, nice=0))
    assert next_step(MOVE, [refused], replace(job, nice=0), scene) == Over(Ending.STAYED, "")
    given = a_step(Renice(7, nice=0), Outcome.DONE, 1011.0)
    after = next_step(MOVE, [refused, given], replace(job, nice=0), Scene(1020.0))
    assert isinstance(after, Over) and after.ending is Ending.STAYED


def test_a_nice_is_given_back_however_long_slurmctld_gives_no_answer_and_to_a_suspended_job_too() -> None:
    back = replace(RUNS, restarts=1, nice=-500, nodes=("n3",), gpus=((1, 3),))
    silent = [a_step(Renice(7, nice=0), Outcome.UNKNOWN, 1000.0 + 10 * n) for n in range(9)]
    steps = [a_step(REQUEUE, Outcome.DONE), *silent]
    assert next_step(MOVE, steps, back, Scene(2000.0)) == Do(Renice(7, nice=0))
    suspended = replace(back, suspended=True)
    assert next_step(MOVE, steps[:1], suspended, Scene(2000.0)) == Do(Renice(7, nice=0))
    refused = [a_step(Renice(7, nice=0), Outcome.REFUSED) for _ in range(3)]
    assert isinstance(next_step(MOVE, [*steps, *refused], back, Scene(2000.0)), Over)


@pytest.mark.parametrize(("nodes", "first"), [(1, None), (8, EditKind.RENICE)], ids=["as it was", "more nodes"])
def test_who_asks_for_more_nodes_while_he_is_moved_waits_in_his_turn(nodes: int, first: EditKind | None) -> None:
    """What stands ahead of the queue is what the job had."""
    asks = replace(TWO, min_nodes=nodes, max_nodes=nodes)
    job = replace(RUNS, state=JobState.PENDING, restarts=1, nice=-500, nodes=(), gpus=(), request=asks, eligible=1030)
    step = next_step(MOVE, [a_step(REQUEUE, Outcome.DONE)], job, Scene(1005.0, same_second=True))
    assert isinstance(step, Do)
    assert (step.edit.kind is EditKind.RENICE) == (first is EditKind.RENICE)
    if first:
        assert step.handed == "it asks for more nodes now"
        handed, steps = replace(MOVE, handed=step.handed), [a_step(REQUEUE, Outcome.DONE)]
        assert next_step(handed, steps, job, Scene(1005.0)) == Do(Renice(7, nice=0))  # also where he asks later
        given = [*steps, a_step(Renice(7, nice=0), Outcome.DONE, 1001.0)]
        assert isinstance(next_step(handed, given, replace(job, nice=0), Scene(1005.0)), Later)
        refused = [a_step(Renice(7, nice=0), Outcome.REFUSED) for _ in range(3)]
        assert isinstance(next_step(handed, [*steps, *refused], job, Scene(1005.0)), Later)


@pytest.mark.parametrize("interval", [1, 2])
def test_a_mover_between_its_runs_starts_when_pald_is_paused(make_house: Make, interval: int) -> None:
    house = make_house(**{**QUICK_MOVES, "cycle": {"interval_s": interval}})
    job = running(house, "--comment=pal:move", "--gres=gpu:2", manners=Manners(term_s=3.0))
    Wanted(house).move(job, there("n3", 1, 3))
    while house.job(job).record.state != "COMPLETING":
        house.live(0.1)
    house.pald.pald.cycle.books.switches.pause("a test", house.now)
    house.live(200)
    assert house.state(job) == "RUNNING" and house.job(job).record.restarts == 1


def test_a_requeue_of_which_nobody_knows_is_made_again_within_minutes_not_hours() -> None:
    """A pald that died between intent and edit, and is back when the job is about to end, or is another's by now."""
    steps = [a_step(REQUEUE, None)]
    again = next_step(MOVE, steps, RUNS, Scene(1010.0))
    assert isinstance(again, Do) and again.edit.kind is EditKind.REQUEUE
    late = next_step(MOVE, steps, RUNS, Scene(5000.0))
    assert isinstance(late, Over) and late.ending is Ending.STAYED


def test_who_takes_his_word_back_after_the_signal_runs_on(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = running(house, "--comment=pal:move=USR1@30!", "--gres=gpu:2", manners=Manners(0.5, 0.0, None))
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(5)
    house.user_edits(job, comment="pal:stay")
    house.live(60)
    assert the_move(house, job).ending is Ending.STAYED and house.job(job).record.restarts == 0


@pytest.mark.parametrize("outcome", [None, Outcome.UNKNOWN, Outcome.DONE])
def test_who_was_maybe_not_asked_to_save_is_not_requeued(outcome: Outcome | None) -> None:
    """pald died before the signal was sent, or slurmctld gave no answer to it."""
    move, asked = replace(MOVE, signal="USR1", ahead_s=30, unanswered=True), [a_step(Warn(7, signal="USR1"), outcome)]
    assert isinstance(next_step(move, asked, RUNS, Scene(1010.0)), Later)
    step = next_step(move, asked, RUNS, Scene(1031.0))
    assert isinstance(step, Do if outcome is Outcome.DONE else Over)


@pytest.mark.parametrize("keys", [{"actuator": "shadow"}, {"moves": {"mode": "off"}}, {"actuator": "pin"}])
def test_switched_off_between_its_runs_a_job_starts_and_its_nice_is_given_back_at_latest_when_it_is_on_again(
    make_house: Make, keys: dict[str, object]
) -> None:
    house = make_house(**QUICK_MOVES)
    job = running(house, "--comment=pal:move", "--gres=gpu:2", manners=Manners(term_s=3.0))
    filler = running(house, "-N4", "--gres=gpu:2")
    head = house.submit("-N4", "--gres=gpu:3")  # waits, also while the mover holds nothing
    house.live(3)
    slots = {0, 1, 2, 3} - set(house.where(filler)["n4"])
    Wanted(house).move(job, there("n4", *sorted(slots)))
    while house.job(job).record.state != "COMPLETING":
        house.live(0.1)
    assert (house.job(job).record.nice or 0) < 0
    house.keys.update(keys)
    house.restart()
    before = len(house.journal)
    house.live(100)
    assert house.state(job) == "RUNNING" and house.job(job).record.restarts == 1 and house.state(head) == "PENDING"
    if keys == {"actuator": "shadow"}:
        assert len(house.journal) == before  # nothing is written in shadow mode
        house.keys.update(QUICK_MOVES)
        house.restart()
        house.live(20)
    assert house.job(job).record.nice == 0 and house.job(job).record.restarts == 1


def test_a_move_that_could_not_be_written_any_more_was_never_begun(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = running(house, "--comment=pal:move", "--gres=gpu:2")
    cycle = house.pald.pald.cycle
    usual, cycle.writer.max_age_s = cycle.writer.max_age_s, -1.0
    wanted = Wanted(house)
    wanted.move(job, there("n3", 1, 3))
    while wanted.decisions:
        house.live(0.5)
    assert cycle.movers.going == {} and moves_of(house, job) == []
    cycle.writer.max_age_s = usual
    house.controller.requeue(job)
    house.live(200)
    assert house.state(job) == "RUNNING"
    seen = next(j for j in cycle.movers.lives.joined(house.slurm.snapshot(), 1).running if j.id == job)
    assert seen.since is None, "its user requeued it: a new submit time is a new life"
