"""Shadow mode as after installation: job_submit.lua leases nobody; pald still says what it would do, and its worth."""

from __future__ import annotations

from collections.abc import Callable

from pal_slurm.model import Action, Knowledge, Reason
from pal_slurm.report.gain import gained
from pal_slurm.store import DecisionRepo, OutcomeRepo
from tests.builders import scores
from tests.simpald import House

MakeHouse = Callable[..., House]
SLOW = Knowledge(scores(A=[[1.5] * 4] * 2 + [[1.0] * 4] * 2))  # n1 and n2, which Slurm takes first


def shadow(make_house: MakeHouse) -> House:
    house = make_house(knowledge=SLOW, actuator="shadow")
    house.lua_alive = False
    return house


def told(house: House, job: int) -> tuple[Action, Reason]:
    pald = house.pald.pald
    last = DecisionRepo(pald.store, pald.setup.cluster_name).of_job(job)[-1]
    return last.decision.action, last.decision.reason


def test_what_would_be_done_with_a_job_that_bears_no_mark_is_decided_and_written_down(make_house: MakeHouse) -> None:
    house = shadow(make_house)
    job = house.submit("--gres=gpu:2", runs=900.0)
    assert house.pald.cycle().would == {Action.START: 1}
    assert told(house, job)[0] is Action.START
    house.live(60)
    assert set(house.where(job)) == {"n1"}  # Slurm's own choice
    house.live(1000)
    pald = house.pald.pald
    name = pald.setup.cluster_name
    decided, got = DecisionRepo(pald.store, name).since(0.0), OutcomeRepo(pald.store, name).since(0.0)
    [one] = gained(decided, got, house.now)
    assert abs(one.gain - 0.5) < 1e-6
    assert house.journal == []


def test_who_waits_for_room_is_told_so_and_who_says_no_is_left_to_slurm(make_house: MakeHouse) -> None:
    house = shadow(make_house)
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=5000.0)
    house.live(60)
    waits, off = house.submit("--gres=gpu:2"), house.submit("--gres=gpu:2", "--comment=pal:off")
    held = house.submit("--gres=gpu:2", "--hold")
    house.live(20)
    assert told(house, waits) == (Action.WAIT, Reason.NO_ROOM)
    assert told(house, off)[0] is not Action.START
    assert told(house, held) == (Action.LEAVE, Reason.HELD)
    assert house.journal == []
