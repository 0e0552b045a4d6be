"""pald's own cycle with an entitlement, in simulated time: who came late with little waits for no flood."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simpald import House

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
    asks = (("--gpus=1",), ("-N4", "--gpus-per-node=4"), ("--gpus=3",), ("-N2", "--gpus-per-node=2"))
    jobs = [
        house.submit(*asks[i % 4], "-t", "10", runs=100.0 + 50 * (i % 3), user=f"u{i % 3}")
        for i in range(16)
    ]  # fmt: skip
    house.live(1500)
    assert {house.state(job) for job in jobs} == {"COMPLETED"}
    told = house.pald.pald.cycle.books.entitling
    assert told.found is not None and told.found.entitlement == f"gavel/{objective}"
