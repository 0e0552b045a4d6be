"""pald moves running jobs of a SimSlurm: what Slurm is told, in which order, and what the job gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.errors import StoreError
from pal_slurm.model import EditKind, Ending, Move
from pal_slurm.sim.slurm.manners import Manners, asks_for_less, dies, exits, requeues
from pal_slurm.store import MoveRepo
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import SETUP, House

Make = Callable[..., House]
ASKS = ("--comment=pal:move", "--gres=gpu:2")
WELL = Manners(term_s=0.5)


def kinds(house: House, job: int) -> list[EditKind]:
    move = the_move(house, job)
    return [i.edit.kind for i in house.pald.pald.cycle.books.ledger.steps_of([move.operation])[move.operation]]


@pytest.fixture(params=["26.05", "24.11"])
def home(request: pytest.FixtureRequest, make_house: Make) -> House:
    return make_house(release=request.param, **QUICK_MOVES)


def running(house: House, *options: str, manners: Manners = WELL, runs: float = 5000.0) -> int:
    job = house.submit(*(options or ASKS), manners=manners, runs=runs)
    house.live(5)
    assert house.state(job) == "RUNNING"
    return job


def test_a_job_that_asked_for_it_is_moved_and_keeps_its_name(home: House) -> None:
    job = running(home)
    was = home.where(job)
    Wanted(home).move(job, there("n3", 1, 3))
    home.live(10)
    assert home.where(job) == {"n3": (1, 3)} != was
    move = the_move(home, job)
    assert move.ending is Ending.MOVED and move.dead_s is not None and move.dead_s <= 4
    assert kinds(home, job) == [EditKind.REQUEUE, EditKind.PIN]
    assert home.job(job).record.restarts == 1 and home.job(job).record.nice in (None, 0)
    seen = next(j for j in home.pald.pald.cycle.movers.lives.joined(home.slurm.snapshot(), 1).running if j.id == job)
    assert seen.submit == move.submit and seen.since is not None and seen.since > move.submit
    assert home.pald.pald.cycle.books.ledger.watched() == []


def test_a_pin_beside_a_job_that_is_just_ending_waits_for_its_end(make_house: Make) -> None:
    """Slurm tells the GPUs of a job that is COMPLETING as free, and starts nobody on its node. Given back to Slurm the
    job that waits would start on the mover's target, or on a GPU model that it may not have."""
    house = make_house(count=2, setup=replace(SETUP, ends_open=True), **QUICK_MOVES)
    job = running(house, manners=Manners(term_s=20.0))
    for _ in range(2):
        running(house, "--gres=gpu:2")
    free = {0, 1, 2, 3} - set(house.where(3)["n2"])
    assert house.where(job).keys() | house.where(2).keys() == {"n1"}
    Wanted(house).move(job, there("n2", *sorted(free)))
    while house.job(job).record.state != "COMPLETING":
        house.live(0.1)
    late = house.submit("--gres=gpu:2", user="bob", runs=5000.0)
    house.live(40)
    assert house.where(job) == {"n2": tuple(sorted(free))} and the_move(house, job).ending is Ending.MOVED
    assert house.where(late).keys() == {"n1"}
    assert house.intents(late, EditKind.UNPIN, EditKind.PLAIN) == []


def test_a_signal_goes_first_and_the_jobs_own_requeue_is_waited_for(home: House) -> None:
    job = running(home, "--comment=pal:move=USR1@30", "--gres=gpu:2", manners=Manners(0.5, 3.0, requeues))
    Wanted(home).move(job, there("n4", 0, 1))
    home.live(15)
    assert home.where(job) == {"n4": (0, 1)}
    assert kinds(home, job) == [EditKind.WARN, EditKind.UNPIN, EditKind.PIN]
    assert the_move(home, job).ending is Ending.MOVED


def test_a_job_that_does_not_answer_its_signal_is_left_running_and_not_asked_again_on_that_day(home: House) -> None:
    job = running(home, "--comment=pal:move=USR1@30", "--gres=gpu:2", manners=Manners(0.5, 0.0, None))
    for _ in range(3):
        Wanted(home).move(job, there("n4", 0, 1))
        home.live(100)
    assert kinds(home, job) == [EditKind.WARN] and the_move(home, job).ending is Ending.STAYED
    assert home.job(job).record.restarts == 0 and home.state(job) == "RUNNING"


def test_who_saves_a_little_late_is_still_pinned(home: House) -> None:
    job = running(home, "--comment=pal:move=USR1@30", "--gres=gpu:2", manners=Manners(0.5, 45.0, requeues))
    Wanted(home).move(job, there("n4", 0, 1))
    home.live(60)
    assert home.where(job) == {"n4": (0, 1)} and kinds(home, job)[-1] is EditKind.PIN


def test_a_job_whose_user_said_so_is_requeued_when_its_time_to_save_is_up(home: House) -> None:
    job = running(home, "--comment=pal:move=USR1@30!", "--gres=gpu:2", manners=Manners(0.5, 0.0, None))
    Wanted(home).move(job, there("n4", 0, 1))
    home.live(28)
    assert home.state(job) == "RUNNING" and home.job(job).record.restarts == 0
    home.live(10)
    assert home.where(job) == {"n4": (0, 1)}
    assert kinds(home, job) == [EditKind.WARN, EditKind.REQUEUE, EditKind.PIN]


def test_two_jobs_exchange_their_gpus(home: House) -> None:
    first, second = running(home, manners=WELL), running(home, manners=Manners(term_s=4.0))
    were = home.where(first), home.where(second)
    assert were[0] != were[1]
    wanted = Wanted(home)
    for job, other, where in ((first, second, were[1]), (second, first, were[0])):
        ((node, slots),) = where.items()
        wanted.move(job, there(node, *slots), partner=other)
    home.live(20)
    assert (home.where(second), home.where(first)) == were
    assert [the_move(home, job).ending for job in (first, second)] == [Ending.MOVED] * 2


def test_a_job_that_is_stopped_waits_in_the_queue_and_starts_again(home: House) -> None:
    job = running(home)
    Wanted(home).move(job, None)
    home.live(20)
    assert the_move(home, job).ending is Ending.STOPPED and home.job(job).record.restarts == 1
    assert home.state(job) == "RUNNING" and home.intents(job, EditKind.PIN)


def test_a_waiting_head_does_not_keep_a_mover_and_the_nice_is_given_back(home: House) -> None:
    job = running(home, *ASKS)
    filler = running(home, "-N4", "--gres=gpu:2", runs=400)
    head = home.submit("-N4", "--gres=gpu:3")
    home.live(3)
    assert home.state(head) == "PENDING" and home.state(filler) == "RUNNING"
    held = {name: set(slots) for name, slots in home.where(filler).items()}
    slots = sorted(set(range(4)) - held["n4"])
    Wanted(home).move(job, there("n4", *slots))
    home.live(15)
    assert home.where(job) == {"n4": tuple(slots)} and home.state(head) == "PENDING"
    assert kinds(home, job) == [EditKind.REQUEUE, EditKind.PIN, EditKind.RENICE]
    assert home.job(job).record.nice == 0


@pytest.mark.parametrize(
    "keys",
    [
        {"actuator": "pin"},
        {"actuator": "shadow"},
        {"moves": {"mode": "off", "first_s": 0, "last_s": 0, "share": 0.5}},
        {"policy": {"moving": "none"}},
    ],
    ids=["pin", "shadow", "off", "moving none"],
)
def test_with_moves_off_or_another_actuator_running_jobs_are_left_alone(
    make_house: Make, keys: dict[str, object]
) -> None:
    house = make_house(**{**QUICK_MOVES, **keys})
    job = house.submit(*ASKS, manners=WELL, runs=5000)
    house.live(40)
    assert house.state(job) == "RUNNING"
    before = len(house.journal)
    wanted = Wanted(house)
    for to in (there("n3", 1, 3), None):
        wanted.move(job, to)
        house.live(60)
    assert [u.asked for u in house.journal[before:]] == [] and moves_of(house, job) == []
    assert house.job(job).record.restarts == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--gres=gpu:2",),
        ("--comment=pal:move pal:stay", "--gres=gpu:2"),
        ("--comment=pal:move", "--no-requeue", "--gres=gpu:2"),
        ("--requeue", "--gres=gpu:2"),
        ("--comment=pal:move", "--gres=gpu:2", "-w", "n1"),
    ],
    ids=["said nothing", "stay", "no-requeue", "requeue alone", "own nodes"],
)
def test_who_did_not_say_that_it_may_be_moved_is_not(make_house: Make, options: tuple[str, ...]) -> None:
    house = make_house(**QUICK_MOVES)
    job = house.submit(*options, manners=WELL, runs=5000)
    house.live(40)
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(60)
    assert moves_of(house, job) == [] and house.job(job).record.restarts == 0 and house.state(job) == "RUNNING"


def test_while_moves_are_off_a_mover_that_waits_is_placed_and_no_running_job_is_touched(home: House) -> None:
    job = running(home, manners=Manners(term_s=5.0))
    Wanted(home).move(job, there("n3", 1, 3))
    home.live(2)
    assert home.job(job).record.state == "COMPLETING"
    home.keys["actuator"] = "pin"
    home.restart()
    home.live(40)
    assert home.state(job) == "RUNNING" and the_move(home, job).ending is Ending.ELSEWHERE


def test_a_move_goes_on_after_a_cycle_in_which_the_database_did_not_tell_of_it(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running(home, "--comment=pal:move=USR1@30", "--gres=gpu:2", manners=Manners(0.5, 10.0, requeues))
    Wanted(home).move(job, there("n4", 0, 1))
    home.live(2)
    assert kinds(home, job) == [EditKind.WARN]
    tells, silent = MoveRepo.since, [True]

    def since(repo: MoveRepo, began: float) -> list[Move]:
        if silent and silent.pop():
            raise StoreError("the database is locked by another program")
        return tells(repo, began)

    monkeypatch.setattr(MoveRepo, "since", since)
    home.restart()
    home.live(30)
    assert not silent and home.where(job) == {"n4": (0, 1)}
    assert the_move(home, job).ending is Ending.MOVED


def test_a_job_that_takes_the_signal_for_its_end_has_ended(home: House) -> None:
    job = running(home, "--comment=pal:move=USR1@30", "--gres=gpu:2", manners=Manners(0.5, 1.0, exits))
    Wanted(home).move(job, there("n4", 0, 1))
    home.live(20)
    assert home.controller.ended[job] == "COMPLETED" and the_move(home, job).ending is Ending.ENDED


MANNERS: dict[str, tuple[Manners, str]] = {
    "ignores it": (Manners(0.5, 0.0, None), "stays"),
    "ignores SIGTERM too": (Manners(1e9, 0.0, None), "stays"),
    "dies of it": (Manners(0.5, 0.1, dies), "FAILED"),
    "takes it for its end": (Manners(0.5, 0.1, exits), "COMPLETED"),
    "saves too slowly": (Manners(0.5, 250.0, requeues), "stays"),
    "requeues itself": (Manners(0.5, 5.0, requeues), "there"),
    "asks for another node": (Manners(0.5, 5.0, asks_for_less), "n4"),
}


@pytest.mark.parametrize("manner", MANNERS)
def test_a_job_of_ill_manners_is_not_lost_by_us(make_house: Make, manner: str) -> None:
    house = make_house(**QUICK_MOVES)
    manners, comes = MANNERS[manner]
    job = running(house, "--comment=pal:move=USR1@30", "--gres=gpu:2", manners=manners)
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(300)
    if comes in ("FAILED", "COMPLETED"):
        assert house.controller.ended[job] == comes and the_move(house, job).ending is Ending.ENDED
        return
    if comes == "stays":
        assert the_move(house, job).ending is Ending.STAYED
        house.live(200)  # one that requeues itself much later is a job like any that does
        assert house.state(job) == "RUNNING"
        return
    where = {"n3": (1, 3)} if comes == "there" else None
    assert house.state(job) == "RUNNING" and (where is None or house.where(job) == where), house.where(job)
    if where is None:
        assert set(house.where(job)) == {comes}
    assert the_move(house, job).ending is (Ending.MOVED if where else Ending.ELSEWHERE)
    assert house.pald.pald.cycle.movers.repo.open() == []


def test_one_that_would_always_be_moved_back_is_left_alone_when_its_day_is_used_up(make_house: Make) -> None:
    house = make_house(**{**QUICK_MOVES, "moves": {"mode": "asked", "first_s": 0, "last_s": 0, "share": 0.5}})
    job = running(house)
    for number in range(8):
        Wanted(house).move(job, there("n3" if number % 2 else "n4", 1, 3))
        house.live(30)
    assert len(moves_of(house, job)) == 4 and house.job(job).record.restarts == 4 and house.state(job) == "RUNNING"


def test_of_many_that_ask_at_once_only_so_many_go(make_house: Make) -> None:
    house = make_house(**{**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], "at_once": 2, "per_user": 3}})
    jobs = [running(house, "--comment=pal:move", "--gres=gpu:1") for _ in range(6)]
    wanted = Wanted(house)
    for number, job in enumerate(jobs):
        wanted.move(job, there(f"n{3 + number // 4}", number % 4))
    house.live(60)
    assert sum(len(moves_of(house, job)) for job in jobs) == 2
    for number, job in enumerate(jobs):
        wanted.move(job, there(f"n{3 + number // 4}", number % 4))
    house.live(60)
    assert sum(len(moves_of(house, job)) for job in jobs) == 3
    assert {house.state(job) for job in jobs} == {"RUNNING"}


def test_moves_that_did_not_pay_stop_by_themselves_and_pald_says_so(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = running(house)
    for number in range(6):
        Wanted(house).move(job, there("n3" if number % 2 else "n4", 1, 3))
        house.live(4)
    assert len(moves_of(house, job)) >= 5
    before = len(moves_of(house, job))
    Wanted(house).move(job, there("n2", 1, 3))
    house.live(60)
    assert len(moves_of(house, job)) == before and house.state(job) == "RUNNING"
    assert "stopped by themselves" in " ".join(house.pald.pald.notes)


def test_a_job_that_waits_without_a_lease_keeps_moves_from_beginning(make_house: Make) -> None:
    """It would take the GPUs the moment that they are free."""
    house = make_house(**QUICK_MOVES)
    job = running(house)
    house.lua_alive = False
    house.submit("-N4", "--gres=gpu:4")
    house.live(3)
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(30)
    assert moves_of(house, job) == [] and house.job(job).record.restarts == 0
