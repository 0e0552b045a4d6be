"""Lease lengths, renewals, the write budget and the read pace: pure arithmetic, told in sentences."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.daemon.leases.keeping import LeaseRules, last_in_order, lease_end, renewals
from pal_slurm.daemon.pace import EDIT, KEEP, PUT_OFF, START, KeepBudget, ReadPace, StartBudget, WriteBudget, within
from pal_slurm.model import EditKind
from tests.builders import leased, waiting

RULES = LeaseRules()


def test_ten_thousand_waiting_jobs_cost_under_20_edits_a_second() -> None:
    slack = 15.0
    cost = sum(1 / (RULES.length(rank, job_id=1_000_000 + rank) - slack) for rank in range(10_000))
    assert cost < 20


@given(st.integers(0, 10**6), st.integers(1, 2**32 - 1))
def test_no_lease_exceeds_ten_minutes(rank: int, job_id: int) -> None:
    assert 30 <= RULES.length(rank, job_id) <= 600


def test_the_head_of_the_queue_starts_first_when_pald_dies() -> None:
    lengths = [RULES.length(rank, job_id=7) for rank in range(400)]
    assert lengths == sorted(lengths)


def test_leases_of_equal_rank_do_not_end_together() -> None:
    assert len({RULES.length(10_000, job_id) for job_id in range(1000, 1200)}) > 20


def test_only_leases_that_end_soon_are_renewed_and_the_soonest_first() -> None:
    jobs = [(0, leased(1, until=110)), (1, leased(2, until=500)), (2, leased(3, until=104))]
    edits = renewals(jobs, {}, RULES, now=100.0, slack_s=15.0)
    assert [(e.job, e.kind) for e in edits] == [(3, EditKind.RENEW), (1, EditKind.RENEW)]
    assert all(e.until is not None and e.until > 130 for e in edits)


def test_where_not_all_can_be_renewed_in_time_the_last_in_the_order_are() -> None:
    jobs = [(i, leased(i, until=110 + i % 5)) for i in range(1, 301)]
    edits = renewals(jobs, {}, RULES, now=100.0, slack_s=15.0, rate=1.0, at_once=40)
    assert sorted(edit.job for edit in edits[:40]) == list(range(261, 301))
    assert sorted(edit.job for edit in edits[40:]) == list(range(1, 261))  # they are put off
    later = [(i, leased(i, until=400)) for i in range(301, 311)]
    assert renewals([*jobs, *later], {}, RULES, now=100.0, slack_s=15.0, rate=1.0, at_once=40) == edits


@given(st.lists(st.integers(1, 300), max_size=200), st.floats(0.1, 20), st.integers(0, 60))
def test_whatever_may_be_written_now_all_that_is_needed_is_told_and_nothing_else(
    ends: list[int], rate: float, at_once: int
) -> None:
    jobs = [(i, leased(i, until=100 + end)) for i, end in enumerate(ends, 1)]
    now = [e.job for e in renewals(jobs, {}, RULES, now=100.0, slack_s=5.0, rate=rate, at_once=at_once)]
    needed = [e.job for e in renewals(jobs, {}, RULES, now=100.0, slack_s=5.0, rate=rate)]
    assert len(set(now)) == len(now) and set(now) >= set(needed)
    assert now == needed or len(needed) > at_once


@given(st.lists(st.floats(-5, 60), max_size=30), st.randoms(), st.floats(0, 1), st.integers(0, 9))
def test_those_that_are_kept_are_what_one_would_choose_from_the_end_of_the_queue(
    late_s: list[float], draw: Random, rate: float, at_once: int
) -> None:
    late_s, ranks = sorted(late_s), draw.sample(range(100), len(late_s))

    def possible(places: set[int]) -> bool:
        return all(k <= at_once + rate * max(0.0, late_s[p]) for k, p in enumerate(sorted(places), 1))

    one_by_one: set[int] = set()
    for place in sorted(range(len(ranks)), key=lambda p: -ranks[p]):
        one_by_one |= {place} if possible(one_by_one | {place}) else set()
    assert last_in_order(ranks, late_s, rate, at_once) == sorted(one_by_one)


def test_of_many_leases_that_end_together_some_are_renewed_ahead_so_that_the_budget_suffices() -> None:
    jobs = [(i, leased(i, until=120)) for i in range(1, 301)]
    ahead = renewals(jobs, {}, RULES, now=100.0, slack_s=5.0, rate=10.0)
    assert len(ahead) == 150  # 10 a second for the 15 s that are left serve the other 150
    assert renewals(jobs[:150], {}, RULES, now=100.0, slack_s=5.0, rate=10.0) == []


@given(st.lists(st.integers(1, 600), max_size=300), st.floats(1, 100))
def test_renewals_in_time_are_possible_after_those_that_are_due(ends: list[int], rate: float) -> None:
    jobs = [(i, leased(i, until=100 + end)) for i, end in enumerate(ends, 1)]
    chosen = {edit.job for edit in renewals(jobs, {}, RULES, now=100.0, slack_s=5.0, rate=rate)}
    rest = sorted(end for i, end in enumerate(ends, 1) if i not in chosen)
    assert all(k <= rate * (end - 5) + 1e-6 for k, end in enumerate(rest, 1))


def test_a_dependent_job_without_eligible_time_goes_by_what_was_last_written() -> None:
    job = leased(5, until=20, eligible=None)
    assert lease_end(job, written=900) == 900
    assert lease_end(job, written=None) == 20
    assert job.is_leased(5_000.0)


def test_a_job_whose_begin_time_has_come_is_no_longer_ours_to_place() -> None:
    assert leased(1, until=110).is_leased(100.0)
    assert not leased(1, until=110).is_leased(110.0)
    assert not waiting(2, eligible=500).is_leased(100.0)


def test_the_budget_refills_with_time_and_never_beyond_its_burst() -> None:
    budget = WriteBudget(rate=20, burst=40)
    assert budget.allowance(0.0) == 40
    budget.spend(40)
    assert budget.allowance(0.5) == 10
    assert budget.allowance(1000.0) == 40


def test_starts_have_a_share_of_time_by_what_they_cost_and_the_edits_of_all_beside_it() -> None:
    budget = StartBudget(share=0.05, cost_s=0.01)
    assert budget.allowance(100.0) == 50  # ten seconds' worth
    budget.spend(starts=50, written=50, wall_s=0.5)
    assert budget.allowance(100.0) == 0
    assert budget.allowance(102.0) == 10
    for _ in range(40):
        budget.spend(starts=0, written=10, wall_s=0.01)
    assert budget.allowance(1000.0) == pytest.approx(500, abs=10)  # they cost a tenth by now
    wanted = [START, EDIT, START, START, EDIT, KEEP, KEEP]
    assert within(wanted, {START: 2, KEEP: 1, EDIT: 2}) == [START, EDIT, START, EDIT, PUT_OFF, KEEP, PUT_OFF]
    assert within([START] * 3, {START: 0, KEEP: 9, EDIT: 1}) == [EDIT, PUT_OFF, PUT_OFF]


def test_keeping_leases_has_a_share_of_time_that_grows_with_the_time_between_two_looks() -> None:
    budget = KeepBudget(share=0.05)
    assert budget.allowance(100.0) == 2  # as of a slurmctld in trouble
    for _ in range(12):
        budget.took(1000, wall_s=1.0)
    assert budget.rate == pytest.approx(50, rel=0.01) and budget.allowance(100.0) == pytest.approx(500, abs=5)
    budget.spend(500)
    assert budget.allowance(100.0) == 0
    assert budget.allowance(110.0) == budget.allowance(1000.0) == pytest.approx(500, abs=5)
    budget.apart_s = 80.0
    assert budget.allowance(2000.0) == pytest.approx(4000, abs=40)


def test_a_bulk_is_small_until_a_pace_is_known_and_well_within_the_time_from_then_on() -> None:
    budget = KeepBudget()
    assert budget.bulk(25.0, 64, 1000) == 64
    for _ in range(12):
        budget.took(100, wall_s=1.0)
    assert budget.bulk(25.0, 64, 100_000) == pytest.approx(1250, rel=0.01)  # half of the time
    budget.took(64, wall_s=12.8)
    assert budget.cost_s == pytest.approx(0.2)  # slower at once
    budget.took(0, wall_s=60.0)
    assert budget.cost_s == pytest.approx(0.2)


def test_reading_is_spaced_so_that_it_takes_at_most_its_share() -> None:
    pace = ReadPace(share=0.05)
    pace.took(wall_s=0.2, rpc_s=0.05)
    assert pace.gap_s(least_s=0.1) == pytest.approx(1.25)  # 4 %: a minute that goes badly has room to the 5 %


def test_a_slow_slurmctld_is_asked_less_and_less_often_until_it_recovers() -> None:
    pace = ReadPace(share=0.5)
    gaps = []
    for _ in range(8):
        pace.failed()
        gaps.append(pace.gap_s(least_s=1.0))
    assert gaps == sorted(gaps)
    assert gaps[-1] == 60.0
    for _ in range(8):
        pace.took(wall_s=0.01, rpc_s=0.01)
    assert pace.gap_s(least_s=1.0) == 1.0
