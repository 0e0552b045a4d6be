"""Whose clock is wrong, by when the snapshot was asked for here and what slurmctld's counts say."""

from __future__ import annotations

import pytest

from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.seeing import by_slurms_clock
from pal_slurm.slurm.port import Passes
from tests.builders import NOW, snapshot


@pytest.mark.parametrize(
    ("taken", "since_s"), [(0.0, 0.0), (0.9, 0.0), (3.9, 0.0), (-3.0, 0.0), (-20.0, 18.0), (-1.0, 15.0)]
)
def test_clocks_that_agree_but_for_seconds_and_the_time_that_asking_took_are_left(taken: float, since_s: float) -> None:
    seen, report = snapshot(now=NOW + taken), CycleReport()
    told = Passes(1, 1, 0, 0, 0, int(NOW))
    assert by_slurms_clock(seen, told, since_s, report) is seen and report.end == "ok"


@pytest.mark.parametrize(
    ("taken", "since_s", "said"),
    [(86_401.0, 0.5, "86400 s ahead of"), (5.0, 9.0, "4 s ahead of"), (-40.0, 0.0, "40 s behind"),
     (-40.0, 15.0, "25 s behind")],
)  # fmt: skip
def test_where_they_do_not_slurmctlds_counts_and_the_cycle_says_so(taken: float, since_s: float, said: str) -> None:
    report = CycleReport()
    seen = by_slurms_clock(snapshot(now=NOW + taken), Passes(1, 1, 0, 0, 0, int(NOW)), since_s, report)
    assert seen.taken == NOW
    assert report.end == "clock" and said in report.sentence and "palctl doctor" in report.sentence


def test_a_slurmctld_that_tells_no_time_is_taken_at_ours() -> None:
    seen, report = snapshot(now=NOW + 86_400), CycleReport()
    assert by_slurms_clock(seen, Passes(1, 1, 0, 0, 0), 0.0, report) is seen and report.end == "ok"
