"""Moves that slurmctld does not let begin: nobody has gone, nobody pays for it, and it is not tried again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pal_slurm.daemon.moves.machine import next_step
from pal_slurm.daemon.moves.movers import BOUND_S
from pal_slurm.daemon.moves.scene import Do, Later, Scene
from pal_slurm.daemon.rights import AGAIN_S
from pal_slurm.daemon.undo import fences, one, undo
from pal_slurm.errors import BadInput, SlurmUnavailable
from pal_slurm.guard import Cause, MoveRules, Permit, Refusal, Rules, check
from pal_slurm.guard.running import movable
from pal_slurm.model import (
    Action,
    Decision,
    EditKind,
    Ending,
    JobState,
    Lease,
    Outcome,
    Reason,
    Renice,
    Snapshot,
    Waits,
    homogeneous,
)
from pal_slurm.sim.slurm.manners import Manners
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import House
from tests.unit.test_moves_fence import Full
from tests.unit.test_moves_held import MOVE, REQUEUE, RUNS, TWO, a_step

Make = Callable[..., House]
TWICE_A_DAY = {**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], "per_job": 2}}
DENIED = "Error creating the reservation: Access/permission denied"


def fences_of(house: House, job: int) -> int:
    return len(house.intents(job, EditKind.FENCE))


def refused(house: House, said: str) -> Full:
    """Both fences of an exchange."""
    full = Full(house)
    house.watch.fates = [said] * 2
    full.exchange()
    house.live(20)
    assert [moves_of(house, job)[-1].ending for job in full.jobs[:2]] == [Ending.STAYED] * 2
    return full


def test_a_fence_that_was_refused_costs_its_jobs_no_more_than_one_of_their_moves(make_house: Make) -> None:
    house = make_house(**TWICE_A_DAY)
    full = refused(house, "Requested nodes are busy")
    full.exchange()
    house.live(30)
    assert [house.where(job) for job in full.jobs[:2]] == [full.where[1], full.where[0]]
    full.exchange()
    house.live(30)
    assert [len(moves_of(house, job)) for job in full.jobs[:2]] == [2, 2]


def test_who_may_make_no_reservations_tries_no_second_one_soon_and_moves_those_that_need_none(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    full = refused(house, DENIED)
    full.exchange()
    house.live(30)
    assert [fences_of(house, job) for job in full.jobs[:2]] == [1, 1]
    assert house.pald.pald.cycle.writer.rights.denied(0.0) == "", "it edits jobs as before"
    house.controller.cancel(full.rival)
    full.exchange()
    house.live(30)
    assert [house.where(job) for job in full.jobs[:2]] == [full.where[1], full.where[0]]


def test_it_is_tried_again_after_ten_minutes(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    full = refused(house, DENIED)
    house.live(AGAIN_S)
    full.exchange()
    house.live(30)
    assert [fences_of(house, job) for job in full.jobs[:2]] == [2, 2]


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_undo_of_one_job_ends_its_fence_too_and_no_other_one(make_house: Make, state: str) -> None:
    house = make_house(**QUICK_MOVES)
    full = Full(house)
    full.exchange()
    while not full.closed or house.state(full.jobs[0]) != state:
        house.live(0.05)
    house.kill()
    found = house.slurm.snapshot()
    job = full.jobs[0]
    assert fences(found, job) == [job] and set(fences(found)) == set(full.jobs[:2])
    undo(house.slurm, one(found, job, fenced=True), found.taken)
    house.slurm.lift(fences(found, job))
    assert full.closed == [f"pal-move-{full.jobs[1]}"]
    with pytest.raises(BadInput):
        one(found, full.jobs[2])
    house.pald = house.another()


def test_who_would_lose_by_a_requeue_what_no_pin_gives_back_stays_and_palctl_why_says_so(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = house.submit("--comment=pal:move", "--gres=gpu:2", runs=50_000.0)
    house.live(5)
    house.job(job).bound = "it has a deadline"
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(10)
    assert moves_of(house, job) == [] and house.job(job).record.restarts == 0
    (said,) = [row.said for row in house.pald.pald.cycle.books.ledger.refused(job)]
    assert said == f"job {job}: it has a deadline"
    house.job(job).bound = ""
    house.live(BOUND_S)
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(10)
    assert house.where(job) == {"n3": (1, 3)}


def test_where_one_of_two_is_bound_the_other_one_does_not_go_either(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    full = Full(house)
    house.controller.cancel(full.rival)
    house.job(full.jobs[1]).bound = "it holds licenses"
    full.exchange()
    house.live(20)
    assert [moves_of(house, job) for job in full.jobs[:2]] == [[], []]


def test_where_slurm_does_not_tell_who_is_bound_nobody_is_moved_and_the_cycle_goes_on(make_house: Make) -> None:
    """As squeue, asked about one job only, that has just ended."""
    house = make_house(**QUICK_MOVES)
    job = house.submit("--comment=pal:move", "--gres=gpu:2", runs=50_000.0)
    house.live(5)

    def gone() -> None:
        raise SlurmUnavailable("squeue failed: Invalid job id specified")

    house.watch.before["bound"] = gone
    Wanted(house).move(job, there("n3", 1, 3))
    before = house.pald.effort.ends["ok"]
    house.live(10)
    assert set(house.pald.effort.ends) == {"ok"} and house.pald.effort.ends["ok"] > before
    assert moves_of(house, job) == []
    del house.watch.before["bound"]
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(10)
    assert house.where(job) == {"n3": (1, 3)}


PINNED = replace(
    RUNS, state=JobState.PENDING, restarts=1, nice=-500, nodes=(), gpus=(), eligible=1030, required_nodes="n4"
)


@pytest.mark.parametrize(("placed", "back"), [((), True), ((("n4",),), False)], ids=["its user", "the planner"])
def test_who_was_handed_over_keeps_his_place_until_he_runs_but_where_his_user_names_nodes(
    placed: tuple[tuple[str, ...], ...], back: bool
) -> None:
    move, steps = replace(MOVE, handed="its target is gone"), [a_step(REQUEUE, Outcome.DONE)]
    step = next_step(move, steps, PINNED, Scene(1010.0, placed=placed))
    assert step == Do(Renice(7, nice=0)) if back else isinstance(step, Later)


def test_who_is_moved_by_nodes_waits_until_those_that_are_moved_by_slots_to_the_same_node_are_there(
    make_house: Make,
) -> None:
    """Its pin would take the lowest free devices, maybe theirs: at the pin it is too late to find that out."""
    house = make_house(**QUICK_MOVES)
    by_slots = house.submit("--comment=pal:move", "--gres=gpu:1", runs=50_000.0, manners=Manners(6.0))
    house.live(5)
    by_nodes = house.submit("--comment=pal:move", "-n1", "--gpus-per-task=1", runs=50_000.0)
    house.live(5)
    wanted = Wanted(house)
    wanted.move(by_slots, there("n3", 1))
    house.live(2)
    while not moves_of(house, by_nodes):
        wanted.move(by_nodes, replace(there("n3", 0), exact=False))
        house.live(1)
    assert the_move(house, by_slots).ending is Ending.MOVED
    house.live(20)
    assert house.where(by_slots) == {"n3": (1,)} and house.where(by_nodes) == {"n3": (0,)}
    assert the_move(house, by_nodes).ending is Ending.MOVED


def test_a_running_task_is_not_moved_while_others_of_its_array_wait_for_its_turn() -> None:
    """Slurm tells the limit of the record that waits, not of a task that runs."""
    asks = {"lease": Lease(0, TWO), "batch": 1, "array_id": 7}
    waits = replace(RUNS, id=9, state=JobState.PENDING, nodes=(), gpus=(), array_id=7, array_limit=1)
    rules = Rules(disable_job_shrink=True, moves=MoveRules(first_s=0.0, share=0.5))
    runs = replace(RUNS, **asks)  # type: ignore[arg-type]
    stop = Decision(7, None, Action.STOP, Reason.MAKES_ROOM)
    for limit, moved in ((1, False), (None, True)):
        view = Snapshot(1000.0, homogeneous(2, 4), (replace(waits, array_limit=limit),), (runs,))
        (verdict,) = check([stop], view, rules)
        assert isinstance(verdict, Permit) == moved == (movable(view, rules) == [runs])
        assert moved or (isinstance(verdict, Refusal) and verdict.reason is Cause.ARRAY_LIMIT)


HIS: dict[str, Any] = {"user": "u", "account": "lab", "qos": "normal", "partitions": ("gpu", "night")}
OTHERS: dict[str, Any] = {"user": "bob", "account": "others", "qos": "long", "partitions": ("day",)}


@pytest.mark.parametrize(
    ("waits", "moved"),
    [
        ({"why": Waits.OWN_LIMIT}, False),
        ({"why": Waits.OWN_LIMIT, "gpu_job": False}, False),
        ({**HIS, "why": Waits.OWN_LIMIT, "user": "bob"}, True),
        ({**OTHERS, "why": Waits.THEIR_LIMIT}, True),
        *(({**OTHERS, name: value, "why": Waits.THEIR_LIMIT}, False) for name, value in HIS.items()),
        ({**HIS, "why": Waits.LIMIT}, True),
        ({**HIS, "why": Waits.UNSEEN, "required_nodes": "n2", "lease": Lease(0, TWO)}, False),
        ({**OTHERS, "why": Waits.UNSEEN, "required_nodes": "n2", "lease": Lease(0, TWO)}, True),
    ],
)
def test_who_would_lose_his_place_under_a_limit_to_a_job_that_waits_for_it_stays(
    waits: dict[str, Any], moved: bool
) -> None:
    """While it is requeued it does not count, and Slurm starts the other one."""
    rules = Rules(disable_job_shrink=True, moves=MoveRules(first_s=0.0, share=0.5))
    runs = replace(RUNS, lease=Lease(0, TWO), batch=1, **HIS)
    asks: dict[str, Any] = {"id": 9, "state": JobState.PENDING, "nodes": (), "gpus": (), **waits}
    other = replace(RUNS, **asks)
    view = Snapshot(1000.0, homogeneous(2, 4), (other,), (runs,))
    (verdict,) = check([Decision(7, None, Action.STOP, Reason.MAKES_ROOM)], view, rules)
    assert isinstance(verdict, Permit) == moved == (movable(view, rules) == [runs])
    assert moved or (isinstance(verdict, Refusal) and verdict.reason is Cause.WOULD_BE_TAKEN)
