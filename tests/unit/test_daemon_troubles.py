"""pald's cycle when Slurm's answers are lost, late, double or half done, when it is paused, and when leases run out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.daemon.undo import undo
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import EditKind, Outcome
from pal_slurm.sim.slurm.trouble import AnswerFate
from pal_slurm.store import JobOutcome
from tests.simpald import START, House

Make = Callable[..., House]


def lost() -> None:
    raise SlurmUnavailable("no answer in time")


def test_leases_are_renewed_while_a_job_has_to_wait(house: House) -> None:
    first = [house.submit("--gres=gpu:4", runs=300) for _ in range(4)]
    second = house.submit("--gres=gpu:4")
    house.live(299)
    assert [house.state(job) for job in first] == ["RUNNING"] * 4
    assert house.state(second) == "PENDING" and house.job(second).begin > house.now
    renewed = [update.asked.begin or 0 for update in house.journal if update.target == str(second)]
    assert len(renewed) >= 2 and renewed == sorted(renewed)
    assert all(begin - START <= 299 + 60 for begin in renewed)  # the head of the queue has a short one
    house.live(10)
    assert house.state(second) == "RUNNING"


def test_a_lease_that_ran_out_is_taken_up_again(house: House) -> None:
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=400)
    waits = house.submit("--gres=gpu:2")
    house.live(5)
    house.kill()
    house.alone(60)  # away for longer than the lease
    house.pald = house.another()
    house.live(60)
    assert house.intents(waits, EditKind.LEASE) and house.job(waits).begin > house.now
    house.live(400)
    assert house.state(waits) == "RUNNING" and len(house.pins(waits)) == 1


def test_a_pause_lets_all_jobs_go_and_takes_no_new_one(house: House) -> None:
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=200)
    waits = house.submit("--gres=gpu:2")
    house.live(20)
    assert house.job(waits).begin > house.now
    house.pald.pald.cycle.books.switches.pause("a window", house.now)
    house.live(10)
    assert house.job(waits).begin <= house.now
    assert house.pald.effort.ends["paused"]
    house.alone(200)
    assert house.state(waits) == "RUNNING" and not house.pins(waits)
    house.pald.pald.cycle.books.switches.resume()
    after = house.submit("--gres=gpu:1")
    house.live(5)
    assert len(house.pins(after)) == 1


def test_after_a_pause_those_that_it_gave_back_are_leased_again_and_nobody_else(house: House) -> None:
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=400)
    waits = [house.submit("--gres=gpu:2", runs=30) for _ in range(24)]
    undone = house.submit("--gres=gpu:2")
    house.live(27)  # not the second in which its first lease ended
    undo(house.slurm, [job for job in house.slurm.snapshot().pending if job.id == undone], house.now)
    house.live(5)
    switches = house.pald.pald.cycle.books.switches
    switches.pause("a window (by alice)", house.now)
    house.live(30)
    assert all(house.job(job).begin <= house.now for job in waits)
    switches.resume()
    house.live(20)
    assert all(house.job(job).begin > house.now for job in waits), "leased again"
    assert house.job(undone).begin <= house.now
    undo(house.slurm, [job for job in house.slurm.snapshot().pending if job.id == waits[0]], house.now)
    house.live(20)
    assert house.job(waits[0]).begin <= house.now, "undone after the pause: not because of it"
    house.live(600)
    assert {house.state(job) for job in waits} <= {"RUNNING", "COMPLETED"}
    assert sum(bool(house.pins(job)) for job in waits) >= 20


@pytest.mark.parametrize("verb", ["snapshot", "apply", "passes"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_costs_a_job_time_and_nothing_else(house: House, verb: str, when: str) -> None:
    hooks = getattr(house.watch, when)
    left = [3]

    def sometimes() -> None:
        if left[0]:
            left[0] -= 1
            lost()

    hooks[verb] = sometimes
    jobs = [house.submit(f"--gpus={gpus}", runs=1e5) for gpus in (2, 1, 4)]
    house.live(90)
    assert [house.state(job) for job in jobs] == ["RUNNING"] * 3
    assert house.pald.pald.cycle.books.ledger.watched() == []
    assert all(len(house.pins(job)) <= 1 for job in jobs)


def test_a_pin_whose_answer_was_lost_is_found_and_not_made_again(house: House) -> None:
    house.watch.after["apply"] = lost
    job = house.submit("--gpus=2")
    report = house.pald.cycle()
    assert report.edits[(EditKind.PIN, Outcome.UNKNOWN)] == 1
    house.watch.after.clear()
    house.live(30)
    assert house.state(job) == "RUNNING" and len(house.pins(job)) == 1
    (pin,) = house.intents(job, EditKind.PIN)
    assert pin.outcome is Outcome.DONE and pin.closed


def test_a_pin_of_which_half_stands_is_given_back_in_the_same_cycle(house: House) -> None:
    house.watch.fates = [AnswerFate.HALF]
    job = house.submit("--gpus=2")
    before = house.job(job).job().request
    house.pald.cycle()
    assert [i.outcome for i in house.intents(job, EditKind.PIN)] == [Outcome.PARTIAL]
    assert house.job(job).job().request == before and house.job(job).record.required_nodes == ""
    house.live(60)
    assert house.state(job) == "RUNNING"


@pytest.mark.parametrize("fate", [AnswerFate.TWICE, AnswerFate.LOST, "Requested operation is presently disabled"])
def test_an_update_that_comes_twice_or_never_or_is_refused(house: House, fate: AnswerFate | str) -> None:
    house.watch.fates = [fate]
    job = house.submit("--gpus=2")
    house.live(60)
    assert house.state(job) == "RUNNING"
    assert house.pald.pald.cycle.books.ledger.watched() == []


def test_slurmctld_comes_back_and_counts_its_passes_anew(house: House) -> None:
    house.submit("--gpus=2", runs=1e4)
    house.live(60)
    house.controller.answers = False
    house.live(30)
    assert house.pald.effort.ends["unavailable"]
    house.controller.restart()
    after = house.submit("--gpus=1", runs=1e4)
    house.live(90)
    assert house.state(after) == "RUNNING" and len(house.pins(after)) == 1


def test_a_job_that_is_requeued_loses_its_pin(house: House) -> None:
    job = house.submit("--gpus=2", runs=1e4)
    house.live(10)
    (node,) = house.where(job)
    house.controller.set_node(node, "DOWN")
    house.live(200)
    assert house.job(job).record.restarts == 1
    assert house.state(job) == "RUNNING" and node not in house.where(job)
    given_back = [update for update in house.journal if update.asked.texts.get("nodes") == ""]
    assert given_back and given_back[0].at < house.job(job).started


def test_in_shadow_nothing_is_written_to_slurm(make_house: Make) -> None:
    house = make_house(actuator="shadow")
    house.lua_alive = False
    job = house.submit("--gpus=2")
    house.live(30)
    assert house.journal == [] and house.state(job) == "RUNNING"


def test_a_step_of_slurmctlds_clock_by_500_days_removes_no_history(house: House) -> None:
    """What is old by one of two clocks that disagree is not removed."""
    step_s = 500 * 86_400.0
    then = int(START - step_s)
    outcomes = house.pald.pald.cycle.books.observer.outcomes
    outcomes.record([JobOutcome(7, then, then, "A", ("n1",), ((0,),), end=then)])
    house.watch.told = lambda fresh: replace(fresh, taken=fresh.taken - step_s)  # type: ignore[method-assign]
    house.submit("--gres=gpu:1", runs=1e5)
    house.live(5000)
    assert set(house.pald.effort.ends) == {"clock"}
    assert [got.job for got in outcomes.of_job(7)] == [7]
