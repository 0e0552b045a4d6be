"""Nothing is written beyond the time in which it may be, however long slurmctld takes for each edit (P6)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count, pairwise

import pytest

from pal_slurm.errors import NotLeader
from pal_slurm.model import LATE, EditKind, Intent, Outcome
from tests.simpald import House

Make = Callable[..., House]
LEASE_S = 20
WAITS = "--gres=gpu:4"


def due(make_house: Make, jobs: int) -> House:
    """A full cluster, and so many jobs whose leases end soon."""
    house = make_house(budget={"edits_per_s": 1000}, cycle={"max_age_s": 60})
    house.slurm.keeps_at_once = 1000
    house.lua_alive = False
    for _ in house.controller.nodes:
        house.submit(WAITS, "--exclusive", runs=1e6)
    house.alone(2)
    house.lua_alive = True
    for _ in range(jobs):
        house.submit(WAITS)
    house.alone(LEASE_S - 14)
    return house


def renewed(house: House) -> list[Intent]:
    return [intent for intent in house.intents() if intent.edit.kind is EditKind.RENEW]


@pytest.mark.parametrize("each_s", [0.4, 4.0])
def test_a_bulk_that_slurmctld_takes_long_for_ends_before_another_can_lead(make_house: Make, each_s: float) -> None:
    house = due(make_house, 300)
    second = house.another("second")
    numbers, leads = count(), []

    def slow() -> None:
        """From the sixth update on; whoever stands by looks as often whether he may lead."""
        if next(numbers) > 5:
            house.alone(each_s)
        with suppress(NotLeader):
            leads.append((house.now, second.pald.leader.hold()))

    house.watch.each = slow
    report = house.pald.cycle()
    assert leads == []
    late = [intent for intent in renewed(house) if intent.said == LATE]
    assert late and {intent.outcome for intent in late} == {Outcome.REFUSED}
    done = {intent.edit.job for intent in renewed(house) if intent.outcome is Outcome.DONE}
    assert report.put_off == 300 - len(done) > 0
    assert sum(report.edits.values()) == len(done) == len(house.journal)
    house.kill(second)


def test_the_next_bulk_is_as_long_as_the_last_ones_told_and_then_none_comes_too_late(make_house: Make) -> None:
    house = due(make_house, 600)
    house.watch.each = lambda: house.alone(0.01)
    report = house.pald.cycle()
    made = renewed(house)
    assert report.end == "ok" and report.put_off == 0
    assert len({intent.edit.job for intent in made}) == len(made) == 600
    assert {intent.outcome for intent in made} == {Outcome.DONE}
    looks = [before for before, after in pairwise(made) if after.written_at != before.written_at]
    assert len(looks) < 5  # 64, and then as many as there is time for


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a clock of its own")
def test_time_in_which_the_machine_was_suspended_counts() -> None:
    told = "import time, pal_slurm.daemon.clock as c; print(c.SystemClock().monotonic() - time.monotonic())"
    slept = ["unshare", "--time", "--boottime", "5000", sys.executable, "-c", told]
    assert float(subprocess.run(slept, check=True, capture_output=True, text=True).stdout) == pytest.approx(5000, abs=1)
