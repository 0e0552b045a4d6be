"""A bug of the planner's that one job brings about costs that job its placement, and nobody else's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pal_slurm.daemon import starts
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.odd import MOST_TRIES, planned
from pal_slurm.errors import StoreError
from pal_slurm.guard import Permit, Rules, check
from pal_slurm.model import (
    Action,
    App,
    Decision,
    Job,
    Knowledge,
    Placement,
    Reason,
    Snapshot,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import Plan, compose, plan
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.seams import Placer, placements
from tests.builders import leased, running, snapshot, waiting
from tests.simpald import House

CLUSTER = homogeneous(4, 4)
QUEUE = tuple(leased(number) for number in range(1, 11))


@dataclass
class Bug:
    """A placement that some jobs are too much for."""

    odd: frozenset[int]
    sound: Placer

    def place(self, job: Job, app: App, floor: Floor) -> Placement | None:
        if job.id in self.odd:
            raise ZeroDivisionError(f"job {job.id}")
        return self.sound.place(job, app, floor)


@dataclass
class Planner:
    """The real one with that bug; counts how often it is asked."""

    odd: Iterable[int]
    asked: int = 0

    def __call__(self, view: Snapshot) -> Plan:
        self.asked += 1
        composition = replace(compose("pal"), placement=Bug(frozenset(self.odd), placements.get("thrift")))
        return plan(view, Knowledge(neutral_scores(CLUSTER)), composition)


def told(made: Plan) -> dict[int, tuple[str, str]]:
    return {d.job: (str(d.action), str(d.reason)) for d in made.decisions}


@pytest.mark.parametrize("odd", [{1}, {7}, {3, 10}])
def test_the_odd_one_goes_plain_and_the_others_are_placed_as_without_it(
    odd: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    planner = Planner(odd)
    view = snapshot(*QUEUE, cluster=CLUSTER)
    made = planned(view, planner, Entries(), Faults())
    without = snapshot(*(job for job in QUEUE if job.id not in odd), cluster=CLUSTER)
    assert {job: said for job, said in told(made).items() if job not in odd} == told(Planner(())(without))
    assert {job: told(made)[job] for job in odd} == dict.fromkeys(odd, ("plain", "pald-fault"))
    plain = [d for d in made.decisions if d.action is Action.PLAIN]
    assert all(isinstance(verdict, Permit) for verdict in check(plain, view, Rules(disable_job_shrink=True)))
    said = [r.getMessage() for r in caplog.records if "others are placed" in r.getMessage()]
    assert len(said) == 1 and f"only with job {', '.join(map(str, sorted(odd)))}:" in said[0]


def test_it_is_looked_for_once_and_forgotten_when_it_has_left_the_queue() -> None:
    faults, entries, planner = Faults(), Entries(), Planner({7})
    view = snapshot(*QUEUE, cluster=CLUSTER)
    planned(view, planner, entries, faults)
    before = planner.asked
    assert told(planned(view, planner, entries, faults))[7] == ("plain", "pald-fault")
    assert (planner.asked, faults.total) == (before + 1, 1)
    entries.keep(snapshot(QUEUE[0], cluster=CLUSTER))
    assert not any(map(entries.odd, QUEUE))


def test_each_task_of_an_odd_array_goes_plain() -> None:
    """The guard lets tasks pass, not the record of several."""
    array = leased(7, array_id=7, array_tasks=(0, 1, 2))
    made = planned(snapshot(array, leased(2), cluster=CLUSTER), Planner({7}), Entries(), Faults())
    plain = [d for d in made.decisions if d.reason is Reason.PALD_FAULT]
    assert [d.task for d in plain] == [0, 1, 2]
    verdicts = check(plain, snapshot(array, leased(2), cluster=CLUSTER), Rules(disable_job_shrink=True))
    assert all(isinstance(verdict, Permit) for verdict in verdicts)


def test_an_odd_jobs_lease_runs_out_also_where_the_guard_never_lets_it_go(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = house.submit("--gres=gpu:2")
    sound_of, sound_permitted = Needs.of, starts.permitted

    def of(self: Needs, job: Job) -> Need | None:
        if job.id == odd:
            raise IndexError
        return sound_of(self, job)

    def permitted(decisions: Iterable[Decision], *others: Any) -> Any:
        return sound_permitted([d for d in decisions if d.job != odd], *others)

    monkeypatch.setattr(Needs, "of", of)
    monkeypatch.setattr(starts, "permitted", permitted)
    house.live(120)
    assert house.state(odd) == "RUNNING"


def test_whom_nobody_of_us_holds_is_left_alone() -> None:
    theirs, ours = waiting(1, eligible=1), leased(2)
    running_one = running(9, {"n1": (0,)})

    def odd_is(job: Job) -> Callable[[Snapshot], Plan]:
        def planning(view: Snapshot) -> Plan:
            if job in (*view.pending, *view.running):
                raise IndexError
            return Planner(())(view)

        return planning

    for job in (theirs, running_one):
        made = planned(snapshot(theirs, ours, running_one, cluster=CLUSTER), odd_is(job), Entries(), Faults())
        assert all(d.reason is not Reason.PALD_FAULT for d in made.decisions)
        assert told(made)[2][0] == "pin"


def test_a_fault_that_is_no_single_jobs_is_one_of_the_cycle() -> None:
    def several(view: Snapshot) -> Plan:
        if len(view.pending) > 2:
            raise IndexError("several")
        return Planner(())(view)

    for planning in (several, Planner(range(1000))):
        view = snapshot(*(leased(number) for number in range(1, 301)), cluster=CLUSTER)
        with pytest.raises((IndexError, ZeroDivisionError)):
            planned(view, planning, Entries(), Faults())
    assert isinstance(planning, Planner) and planning.asked <= MOST_TRIES + 2


def test_what_is_no_fault_of_ours_passes() -> None:
    def gone(view: Snapshot) -> Plan:
        raise StoreError("away")

    faults = Faults()
    with pytest.raises(StoreError):
        planned(snapshot(*QUEUE, cluster=CLUSTER), gone, Entries(), faults)
    assert faults.total == 0


def test_the_whole_of_pald_lives_with_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    odd, *others = (house.submit("--gres=gpu:2") for _ in range(4))
    sound = Needs.of

    def of(self: Needs, job: Job) -> Need | None:
        if job.id == odd:
            raise IndexError
        return sound(self, job)

    monkeypatch.setattr(Needs, "of", of)
    house.live(30)
    assert {house.state(job) for job in (odd, *others)} == {"RUNNING"}
    assert not house.pins(odd) and all(house.pins(job) for job in others)
    assert house.pald.effort.ends.keys() == {"ok"}


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "pald")
