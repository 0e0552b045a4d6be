"""A reload that has pald place no more jobs: what it held is given back at once, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from pal_slurm.model import Intent, Knowledge
from tests.builders import scores
from tests.simpald import House

MakeHouse = Callable[..., House]
LESS = pytest.mark.parametrize("actuator", ["shadow", "exclude"])


def reload(house: House, actuator: str) -> None:
    """As `systemctl reload pald` after an edit of pal.yaml."""
    pald = house.pald
    pald.reload(msgspec.structs.replace(pald.config, actuator=actuator))


def full(house: House, runs: float = 5000.0) -> None:
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=runs)
    house.live(10)


@LESS
def test_who_waits_under_a_lease_is_let_go_at_once(house: House, actuator: str) -> None:
    full(house)
    waits = [house.submit("--gres=gpu:2") for _ in range(30)]
    house.live(20)
    assert all(house.job(job).begin > house.now for job in waits)
    reload(house, actuator)
    assert not house.pald.alive(house.now)  # job_submit.lua gives no more leases
    house.live(5)
    assert all(house.job(job).begin <= house.now for job in waits)
    assert house.pald.effort.ends["paused"] == 2  # and then it goes on with what it does now
    written = len(house.journal)
    house.live(60)
    assert len(house.journal) == written


@LESS
def test_a_second_reload_meanwhile_does_not_end_that(house: House, actuator: str) -> None:
    full(house)
    waits = [house.submit("--gres=gpu:2") for _ in range(30)]
    house.live(20)
    reload(house, actuator)
    reload(house, actuator)
    house.live(5)
    assert all(house.job(job).begin <= house.now for job in waits)


@LESS
def test_a_job_whose_pin_would_keep_it_waiting_starts_elsewhere(house: House, actuator: str) -> None:
    job = house.submit("--gres=gpu:1")
    house.pald.cycle()
    node = house.job(job).record.required_nodes
    assert node
    house.controller.set_node(node, "DRAIN")
    reload(house, actuator)
    house.live(30)
    assert house.state(job) == "RUNNING" and node not in house.where(job)


def test_nodes_that_a_user_chose_while_his_job_waited_stay(house: House) -> None:
    full(house)
    job = house.submit("--gres=gpu:2")
    house.live(5)
    house.user_edits(job, required_nodes="n3")
    reload(house, "shadow")
    house.live(30)
    assert house.job(job).record.required_nodes == "n3" and house.job(job).begin <= house.now


def test_who_excludes_no_more_opens_all_nodes_again(make_house: MakeHouse) -> None:
    house = make_house(count=6, knowledge=Knowledge(scores(A=[[1.5] * 4] * 2 + [[1.0] * 4] * 4)), actuator="exclude")
    house.lua_alive = False
    for node in range(1, 7):
        house.submit("--gres=gpu:4", "-t10", "-w", f"n{node}", runs=500)
    house.alone(10)
    job = house.submit("--gres=gpu:2", "-t60", "-x", "n6")
    house.live(20)
    assert house.job(job).record.excluded_nodes != "n6"
    reload(house, "shadow")
    house.live(5)
    assert house.job(job).record.excluded_nodes == "n6"


def test_a_slurmctld_that_refuses_it_all_is_not_asked_for_ever(house: House) -> None:
    full(house)
    house.submit("--gres=gpu:2")
    house.live(5)
    house.watch.fates = ["Requested operation is presently disabled"] * 1000
    reload(house, "shadow")
    written = len(house.journal)
    house.live(60)
    assert len(house.journal) == written + 1 and house.pald.effort.ends["paused"] == 1


def test_what_could_not_be_sent_in_time_is_given_back_a_cycle_later(make_house: MakeHouse) -> None:
    house = make_house(cycle={"max_age_s": 5})
    full(house)
    jobs = [house.submit("--gres=gpu:2") for _ in range(5)]
    house.live(5)
    reload(house, "shadow")
    ledger = house.pald.pald.cycle.writer.ledger
    write, slow = ledger.write, [6.0]  # the disk takes longer than what was seen is believed

    def late(planned: Sequence[Intent]) -> list[Intent]:
        if slow:
            house.pald.clock.sleep(slow.pop())
        return write(planned)

    ledger.write = late  # type: ignore[method-assign]
    written = len(house.journal)
    house.pald.cycle()
    assert len(house.journal) == written and not slow
    house.pald.cycle()
    assert len(house.journal) == written + len(jobs)
    assert all(house.job(job).begin <= house.now for job in jobs)


def test_a_reload_that_keeps_on_placing_gives_nothing_back(house: House) -> None:
    full(house)
    job = house.submit("--gres=gpu:2")
    house.live(5)
    reload(house, "pin")
    house.live(60)
    assert house.job(job).begin > house.now and not house.pald.effort.ends["paused"]
