"""pald's own cycle with an entitlement, in simulated time: who came late with little waits for no flood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import FairShares
from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.entitlement.water_filling import Entities
from pal_slurm.policy.seams import Entitlement
from pal_slurm.policy.solving import Lack, NoAnswer
from pal_slurm.report.text import clock
from pal_slurm.report.why import sentences
from tests.simpald import START, House

Make = Callable[..., House]
OBJECTIVES = ("hierarchical", "max-sum", "cost-slo", "finish-time")


@pytest.mark.parametrize(("policy", "first"), [("pal", False), ("gavel/hierarchical", True)])
def test_one_with_two_jobs_does_not_wait_for_anothers_twelve(make_house: Make, policy: str, first: bool) -> None:
    house = make_house(policy={"name": policy})
    many = [house.submit("--gpus=4", "-t", "20", runs=500, user="many") for _ in range(12)]
    house.live(60)
    few = [house.submit("--gpus=4", "-t", "20", runs=500, user="few") for _ in range(2)]
    house.live(2500)
    assert {house.state(job) for job in (*many, *few)} == {"COMPLETED"}
    last = sorted(house.job(job).started for job in many)[-4:]
    assert all((house.job(job).started < last[0]) is first for job in few)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_job_ends_whatever_it_is_owed(make_house: Make, objective: str) -> None:
    house = make_house(policy={"name": f"gavel/{objective}"})
    asks = (
        ("--gpus=1",),
        ("-N4", "--gpus-per-node=4"),
        ("--gpus=3",),
        ("-N2", "--gpus-per-node=2"),
        ("--gpus=2", "--exclusive"),
        ("--gpus=1", "--comment=pal:off"),
    )
    jobs = [
        house.submit(*asks[i % 6], "-t", "10", runs=100.0 + 50 * (i % 3), user=f"u{i % 3}")
        for i in range(18)
    ]  # fmt: skip
    house.live(1500)
    assert {house.state(job) for job in jobs} == {"COMPLETED"}
    told = house.pald.pald.cycle.books.entitling
    assert told.found is not None and told.found.entitlement == f"gavel/{objective}"


@pytest.mark.every(3)
@pytest.mark.parametrize("objective", ["hierarchical", "max-min", "cost-slo"])
@pytest.mark.parametrize("array", [False, True], ids=["jobs", "array"])
def test_a_flood_of_forty_that_has_waited_for_long_lets_a_newcomer_in_at_once(
    make_house: Make, objective: str, array: bool
) -> None:
    house = make_house(policy={"name": f"gavel/{objective}"})
    ask = ("--gpus=4", "-t", "10")
    flood = [house.submit(*ask, *(("--array=0-39",) if array else ()), runs=200, user="many")]
    if not array:
        flood += [house.submit(*ask, runs=200, user="many") for _ in range(39)]
    house.live(900)
    came = house.now
    few = [house.submit(*ask, runs=200, user="few") for _ in range(2)]
    house.live(450)
    waited = [house.job(job).started - came for job in few]
    assert min(waited) <= 210, waited  # as soon as a job of the flood ends
    if objective == "hierarchical":  # users count there; by the others jobs do, and most are the flood's
        assert max(waited) <= 210, waited
    assert house.job(flood[-1]).record.state in ("PENDING", "RUNNING") or array


def test_who_held_a_job_for_long_is_not_ahead_of_those_who_waited(make_house: Make) -> None:
    house = make_house(policy={"name": "gavel/max-min"})
    ask = ("-N4", "--gpus-per-node=4", "-t", "60")
    held = house.submit(*ask, "--hold", runs=600, user="sly")
    runs = house.submit(*ask, "-t", "60", runs=1500, user="first")
    house.live(1300)
    plain = house.submit(*ask, runs=600, user="plain")
    house.live(100)
    house.user_edits(held, priority=100, reason="None")
    house.job(held).held = False
    house.live(1600)
    assert house.state(runs) == "COMPLETED"
    assert house.job(plain).started < house.job(held).started


def test_weights_stay_while_slurmdbd_is_away_and_pald_says_since_when(make_house: Make) -> None:
    house = make_house(policy={"name": "gavel/hierarchical"})
    entitling = house.pald.pald.cycle.books.entitling
    answers: list[FairShares | None] = [None, FairShares({"big": 0.75, "small": 0.25}), FairShares(untold="refused")]

    def ask() -> FairShares:
        told = answers[0]
        if told is None:
            raise SlurmUnavailable("sacctmgr failed: refused")
        return told

    entitling.ask = ask
    takes = house.submit("-N4", "--gpus-per-node=4", "-t", "900", runs=3000)
    jobs = [house.submit("-N4", "--gpus-per-node=4", "-t", "60", user=f"u{n}") for n in range(2)]
    for job, account in zip(jobs, ("big", "small"), strict=True):
        house.user_edits(job, account=account)
    house.live(120)
    assert any("all accounts count the same (sacctmgr failed: refused)" in note for note in house.pald.pald.notes)
    answers.pop(0)
    house.live(70)  # asked again soon, not in five minutes
    assert not house.pald.pald.notes and entitling.fair.accounts["big"] == 0.75
    known = entitling.fair.asked
    assert known is not None and known >= START + 60
    answers.pop(0)
    house.live(400)
    assert entitling.fair.accounts["big"] == 0.75 and entitling.fair.asked == known
    assert any(f"those of {clock(known)} stand (refused)" in note for note in house.pald.pald.notes)
    late = house.submit("-N4", "--gpus-per-node=4", "-t", "60", user="u3")
    house.live(30)
    told = " ".join(sentences(house.pald.pald.cycle.books.decisions.of_job(late)[0]))
    assert f"(as of {clock(known)}: Slurm has not told since)" in told
    assert house.state(takes) == "RUNNING"


@dataclass
class Slow:
    """An entitlement whose solver has an answer now and then."""

    real: Entitlement
    answers: list[bool]
    name: str = "gavel/hierarchical"

    def shares(self, division: Division, owners: Entities) -> Shares:
        if self.answers.pop(0) if self.answers else False:
            return self.real.shares(division, owners)
        raise NoAnswer(Lack.TOO_LATE)


def test_a_solver_without_an_answer_leaves_what_was_owed_and_is_counted(make_house: Make) -> None:
    house = make_house(policy={"name": "gavel/hierarchical"})
    cycle = house.pald.pald.cycle
    entitlement = cycle.composition.entitlement
    assert entitlement is not None
    cycle.composition = replace(cycle.composition, entitlement=Slow(entitlement, [True]))
    jobs = [house.submit("--gpus=4", "-t", "20", runs=300, user=f"u{n}") for n in range(3)]
    house.live(5)
    found = cycle.books.entitling.found
    assert found is not None and len(found.rates) == 3
    jobs += [house.submit("--gpus=4", "-t", "20", runs=300, user="late") for _ in range(3)]
    house.live(60)
    assert cycle.books.entitling.found is found and cycle.books.entitling.unanswered >= 1
    assert any("what they were owed before stands" in note and "times so far" in note for note in house.pald.pald.notes)
    house.live(700)
    assert {house.state(job) for job in jobs} == {"COMPLETED"}  # nobody waits for a solver
