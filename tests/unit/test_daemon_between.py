"""A large site, where slurmctld takes seconds for a question: looks are far apart, and pald lives on between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pal_slurm.daemon.between import KEEP_S
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.daemon.main import Flags, _wait
from pal_slurm.daemon.moves.movers import FAR
from pal_slurm.daemon.pace import ReadPace, WriteBudget
from pal_slurm.daemon.undo import seconds_dead
from pal_slurm.model import EditKind
from pal_slurm.sim.daemon import ALIVE_FOR_S
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.slurm.mark import read_mark
from tests.moving import QUICK_MOVES, moves_of
from tests.simpald import SETUP, House
from tests.unit.test_moves_rings import Ring

Make = Callable[..., House]
SLOW_S = 4.0  # for one question: 5 % of a minute are 3 s


@pytest.fixture
def large(make_house: Make) -> House:
    house = make_house(setup=replace(SETUP, read_s=SLOW_S))
    house.controller.plugin = Leasing(house.pald.alive, told=lambda: house.pald.sign.told_s)
    house.submit("--gres=gpu:1", "-t", "300", runs=1e5)
    house.submit("-N4", "--gres=gpu:4", "-t", "60")  # waits for it: pald looks again and again
    house.live(600)
    return house


def looks(house: House) -> int:
    return house.pald.effort.cycles


def test_a_new_job_is_leased_until_the_look_after_the_next_and_pinned_by_the_next(large: House) -> None:
    ended: list[float] = []
    large.watch.after["snapshot"] = lambda: ended.append(large.now)
    jobs: list[int] = []
    for number in range(12):  # at any moment between two looks
        when = large.now + 20 + 137 * number
        large.controller.at(when, lambda: jobs.append(large.submit("--gres=gpu:1", "-t", "5", runs=30.0)))
    large.live(12 * 137 + 200)
    for job in map(large.job, jobs):
        came = job.record.submit
        seen = [at for at in ended if came < at <= job.started]
        assert len(seen) == 1
        assert [i.edit.kind for i in large.intents(job.record.id)] == [EditKind.PIN]
        leased = read_mark(job.record.admin_comment)
        assert leased is not None and job.started < leased.end
    assert len(jobs) == 12 and min(b - a for a, b in pairwise(ended)) > ALIVE_FOR_S


def test_the_sign_of_life_is_fresh_though_looks_are_further_apart_than_it_counts(large: House) -> None:
    ages: list[float] = []
    before, began = looks(large), large.now
    for second in range(1, 600):
        large.controller.at(began + second, lambda: ages.append(large.now - large.pald.sign.beat_at))
    large.live(600)
    assert (large.now - began) / (looks(large) - before) > ALIVE_FOR_S
    assert len(ages) == 599 and max(ages) < ALIVE_FOR_S / 2


def test_reading_keeps_to_its_share_however_long_it_takes(large: House) -> None:
    spent, began = large.slurm.passes().rpc_time_us, large.now
    large.live(3600)
    assert (large.slurm.passes().rpc_time_us - spent) / 1e6 <= 0.05 * (large.now - began) + SLOW_S


def test_who_stands_by_does_not_take_over_between_two_looks(large: House) -> None:
    second, ends = large.another("second"), []
    for number in range(60):
        large.controller.at(large.now + 10 * number, lambda: ends.append(second.pald.cycle.run().end))
    before = looks(large)
    large.live(600)
    assert ends == ["standby"] * 60 and looks(large) - before < 10
    large.kill(second)


def test_a_pald_that_hangs_between_two_looks_gives_no_sign(large: House) -> None:
    large.alone(ALIVE_FOR_S + KEEP_S)  # its loop does not go on
    job = large.submit("--gres=gpu:1")
    assert not large.job(job).record.admin_comment
    large.alone(6)
    assert large.state(job) == "RUNNING"


def test_where_looks_are_too_far_apart_for_any_lease_jobs_start_as_without_us(make_house: Make) -> None:
    house = make_house(setup=replace(SETUP, read_s=14.0))
    house.controller.plugin = Leasing(house.pald.alive, told=lambda: house.pald.sign.told_s)
    house.live(100)
    job = house.submit("--gres=gpu:1", "-t", "5")
    assert not house.job(job).record.admin_comment
    house.alone(6)
    assert house.state(job) == "RUNNING"


def test_where_looks_are_too_far_apart_for_any_lease_the_dead_mans_timer_takes_nobody_for_dead(
    make_house: Make, tmp_path: Path
) -> None:
    house, file = make_house(setup=replace(SETUP, read_s=14.0)), tmp_path / "alive"
    sign = house.pald.pald.cycle.writer.alive = Alive(file)
    house.live(100)
    assert file.read_text().startswith("exclude ") and sign.lease_s is None
    assert seconds_dead(file, time.time()) < ALIVE_FOR_S


def test_the_loop_that_waits_gives_the_sign(large: House) -> None:
    house = large
    pald = house.pald.pald
    report = house.pald.cycle()
    pald.waker.bell = None
    beats, write = [], house.pald.sign.beat

    def beat(now: float, passing: tuple[str, ...]) -> None:
        beats.append(now)
        write(now, passing)

    house.pald.sign.beat = beat  # type: ignore[method-assign, assignment]
    began = house.now
    _wait(pald, report, Flags(), house.pald.clock)
    assert house.now - began > ALIVE_FOR_S
    gaps = [b - a for a, b in pairwise([began, *beats, house.now])]
    assert max(gaps) <= KEEP_S + 0.1


def test_a_lease_of_a_new_job_lasts_for_two_looks_and_never_longer_than_the_longest() -> None:
    rules = LeaseRules(margin_s=3, most_s=600)
    assert rules.first(20, apart_s=0.4) == 20
    assert rules.first(20, apart_s=100) == 203
    assert rules.first(20, apart_s=299) is None
    assert LeaseRules(margin_s=3, most_s=60).first(20, apart_s=40) is None


def test_answers_that_always_take_seconds_are_no_trouble() -> None:
    pace = ReadPace(share=0.5)
    for _ in range(8):
        pace.took(wall_s=4.0, rpc_s=0.1)
    assert pace.backoff == 0
    pace.took(wall_s=30.0, rpc_s=0.1)
    assert pace.backoff == 1


def test_what_edits_read_again_counts_as_reading() -> None:
    pace = ReadPace(share=0.05)
    pace.took(wall_s=0.1, rpc_s=0.6, beside_s=1.0)
    assert pace.cost_s == 0.6
    pace = ReadPace(share=0.05)
    pace.took(wall_s=0.1, rpc_s=0.6)
    assert pace.cost_s == 0.1  # others ask too


def test_now_and_then_a_question_that_waits_for_a_pass_of_slurms_counts_in_full() -> None:
    pace, spent, now = ReadPace(share=0.05), 0.0, 1000.0
    gaps: list[float] = []
    for number in range(400):
        cost = 2.0 if number % 8 == 0 else 0.1
        pace.took(wall_s=cost + 0.1, rpc_s=cost, monotonic=now)
        gaps.append(pace.gap_s(least_s=0.1))
        spent, now = spent + cost, now + gaps[-1]
    assert 0.03 < spent / (now - 1000.0) < 0.05
    assert all(after <= max(5.0, 1.8 * before) for before, after in pairwise(gaps))


def test_what_the_budget_saves_between_two_looks_may_be_written_at_the_next() -> None:
    budget = WriteBudget(rate=20, burst=64)
    budget.spend(budget.allowance(100.0))
    assert budget.allowance(160.0) == 64
    budget.apart_s = 60.0
    budget.spend(64)
    assert budget.allowance(220.0) == 1200
    assert budget.allowance(1000.0) == 1200


def test_all_who_wait_keep_their_leases_though_looks_are_more_than_a_minute_apart(large: House) -> None:
    jobs = [large.submit("-N4", "--gres=gpu:4", "-t", "60") for _ in range(200)]
    ran_out: list[float] = []
    for minute in range(30):
        at = large.now + 60.0 * minute + 30.0
        large.controller.at(at, lambda: ran_out.extend(large.now for n in jobs if large.job(n).begin < large.now))
    large.live(1800)
    assert all(large.state(number) == "PENDING" for number in jobs) and ran_out == []
    assert set(large.pald.effort.ends) == {"ok"}


@pytest.mark.parametrize("rival", [False, True])
def test_nobody_is_moved_nor_fenced_where_looks_are_too_far_apart_to_follow_him(make_house: Make, rival: bool) -> None:
    house = make_house(**QUICK_MOVES)
    ring = Ring(house, size=3, rival=rival)
    house.submit("-N4", "--gres=gpu:4", "-t", "60")  # waits: pald looks again and again
    house.controller.setup = replace(house.controller.setup, read_s=SLOW_S)
    house.live(900)
    ring.turn()
    closed: list[float] = []
    told: set[str] = set()

    def looked() -> None:
        told.update(house.pald.pald.notes)
        closed.extend(house.now for _ in house.controller.reservations)

    for second in range(300):
        house.controller.at(house.now + second, looked)
    house.live(300)
    assert closed == [] and [moves_of(house, job) for job in ring.jobs] == [[]] * 8
    assert FAR in told
    house.controller.setup = replace(house.controller.setup, read_s=0.01)
    house.live(600)
    ring.turn()
    house.live(60)
    assert [house.where(job) for job in ring.jobs[:3]] == [ring.were[ring.holder(job)] for job in ring.jobs[:3]]
    assert FAR not in house.pald.pald.notes


def test_a_fence_that_is_seen_ten_seconds_later_is_as_good(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    ring = Ring(house, size=3, rival=True)
    house.controller.setup = replace(house.controller.setup, read_s=0.25)
    house.live(900)
    assert 5.0 < house.pald.pald.cycle.pace.spaced_s < 12.0
    ring.turn()
    house.live(120)
    ring.all_run()
    assert [house.where(job) for job in ring.jobs[:3]] == [ring.were[ring.holder(job)] for job in ring.jobs[:3]]
