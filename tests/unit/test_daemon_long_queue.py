"""More jobs wait than leases can be kept: who keeps his, and what is written for it (P5, P8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from pal_slurm.model import EditResult, Job, Outcome, Renew
from pal_slurm.sim.slurm.backend import EDITS_AT_ONCE
from pal_slurm.slurm.port import STANDS_S, Series
from tests.simpald import House

Make = Callable[..., House]


def queue(make_house: Make, jobs: int, **budget: float) -> tuple[House, list[int]]:
    """Submitted at once, before a full cluster."""
    house = make_house(budget={"start_share": 0.0, **budget})
    house.lua_alive = False
    for _ in house.controller.nodes:
        house.submit("--gres=gpu:4", "--exclusive", runs=1e6)
    house.alone(2)
    house.lua_alive = True
    return house, [house.submit("--gres=gpu:4") for _ in range(jobs)]


def leased(house: House, jobs: list[int]) -> list[bool]:
    return [house.job(job).begin > house.now for job in jobs]


def test_where_the_budget_does_not_suffice_no_job_that_is_slurms_stands_behind_one_that_is_leased(
    make_house: Make,
) -> None:
    """Else it would start ahead of it, and what we plan for those in front would come to nothing."""
    house, jobs = queue(make_house, 120, edits_per_s=0.4, keep_share=0.0)
    for _ in range(5):
        house.live(120)
        now = leased(house, jobs)
        assert sorted(now) == now and set(now) == {False, True}


@pytest.mark.every(2)
@pytest.mark.parametrize(("share", "all_kept"), [(0.05, True), (0.0, False)])
def test_leases_are_kept_by_a_share_of_the_time_beside_the_edits_a_second(
    make_house: Make, share: float, all_kept: bool
) -> None:
    house, jobs = queue(make_house, 120, edits_per_s=0.4, keep_share=share)
    for _ in range(10):
        house.live(60)
        assert all(leased(house, jobs)) is all_kept


@pytest.mark.parametrize("calls", [1, 3])
def test_the_look_after_one_batch_is_the_look_before_the_next_and_sees_what_users_did_meanwhile(
    make_house: Make, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    house, jobs = queue(make_house, 3 * EDITS_AT_ONCE)
    look, looks = house.slurm.records, list[int]()

    def watched(ids: Iterable[int]) -> list[Job]:
        found = look(ids)
        looks.append(len(found))
        if len(looks) == 1:  # the first batch is about to be sent
            house.user_edits(jobs[EDITS_AT_ONCE], required_nodes="n2")
        return found

    monkeypatch.setattr(house.slurm, "records", watched)
    edits = [Renew(job, until=int(house.now) + 500, seen=look([job])[0]) for job in jobs]
    results, series, each = list[EditResult](), Series(), len(edits) // calls
    for first in range(0, len(edits), each):
        series.coming = edits[first + each : first + 2 * each]
        results += house.slurm.apply(edits[first : first + each], series=series)
    assert looks == [EDITS_AT_ONCE, 2 * EDITS_AT_ONCE, 2 * EDITS_AT_ONCE - 1, EDITS_AT_ONCE]
    refused = [result.edit.job for result in results if result.outcome is not Outcome.DONE]
    assert refused == [jobs[EDITS_AT_ONCE]] and leased(house, jobs).count(True) >= 3 * EDITS_AT_ONCE - 1


@pytest.mark.parametrize(("known", "later_s"), [(1, 0.0), (2, STANDS_S)])
def test_what_was_read_for_others_or_long_ago_is_read_again(make_house: Make, known: int, later_s: float) -> None:
    house, jobs = queue(make_house, 3)
    edits = [Renew(job, until=int(house.now) + 500, seen=house.slurm.records([job])[0]) for job in jobs]
    series = Series(coming=edits[1 : 1 + known])
    house.slurm.apply(edits[:1], series=series)
    house.alone(later_s)
    assert series.take(edits[1:], house.now) is None
