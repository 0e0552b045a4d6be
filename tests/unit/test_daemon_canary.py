"""Rollout by percentage or partition: who is placed, who goes plain, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pal_slurm.config import CanarySection, Config
from pal_slurm.daemon.canary import described, outside
from pal_slurm.model import Action, Job, Reason, homogeneous, neutral_scores
from pal_slurm.model import Knowledge as Known
from pal_slurm.policy import Circumstances, compose, plan
from tests.builders import leased, snapshot


def job(number: int, *partitions: str, array: int | None = None) -> Job:
    return leased(number, partitions=partitions or ("gpu",), time_limit_s=600, array_id=array)


def settings(percent: float = 100.0, *partitions: str, actuator: str = "pin") -> Config:
    return Config(actuator=actuator, canary=CanarySection(percent=percent, partitions=partitions))  # type: ignore[arg-type]


def test_by_default_every_job_is_placed() -> None:
    assert outside([job(n) for n in range(1000)], settings()) == frozenset()


@pytest.mark.parametrize("percent", [0.0, 1.0, 10.0, 50.0, 99.0])
def test_about_as_many_jobs_are_placed_as_the_percentage_says(percent: float) -> None:
    left_out = len(outside([job(n) for n in range(1, 20_001)], settings(percent)))
    assert 20_000 - left_out == pytest.approx(200 * percent, rel=0.1, abs=2)


def test_more_percent_takes_no_job_out_again() -> None:
    jobs = [job(n) for n in range(1, 2001)]
    assert outside(jobs, settings(40)) < outside(jobs, settings(10))


def test_the_records_of_one_array_are_in_or_out_together() -> None:
    tasks = [job(n, array=5000) for n in range(5000, 5100)]
    assert len(outside(tasks, settings(50))) in (0, 100)


def test_a_job_that_may_start_elsewhere_too_is_not_in_a_canary_of_partitions() -> None:
    jobs = [job(1, "test"), job(2, "gpu"), job(3, "gpu", "test")]
    assert outside(jobs, settings(100, "test")) == {2, 3}


def test_in_shadow_mode_all_jobs_are_looked_at() -> None:
    assert outside([job(1)], settings(0, "other", actuator="shadow")) == frozenset()


def test_it_is_told_in_words() -> None:
    assert described(CanarySection()) == ""
    assert described(CanarySection(percent=5, partitions=("a", "b"))) == "canary: 5 % of the jobs in a,b"


def test_a_job_outside_goes_plain_in_its_turn_and_not_before() -> None:
    cluster = homogeneous(1, 2)
    look = snapshot(job(1), job(2), job(3), cluster=cluster)
    known = Known(neutral_scores(cluster))
    made = plan(look, known, compose("pal"), Circumstances(outside=frozenset({1, 3})))
    assert [(d.job, d.action, d.reason) for d in made.decisions] == [
        (1, Action.PLAIN, Reason.OUTSIDE_CANARY),
        (2, Action.START, Reason.NEUTRAL),
        (3, Action.WAIT, Reason.NO_ROOM),
    ]


def test_a_job_that_is_not_ours_stays_what_it_is_outside_too() -> None:
    cluster = homogeneous(1, 2)
    look = snapshot(replace(job(1), lease=None), cluster=cluster)
    made = plan(look, Known(neutral_scores(cluster)), compose("pal"), Circumstances(outside=frozenset({1})))
    assert [(d.action, d.reason) for d in made.decisions] == [(Action.LEAVE, Reason.FOREIGN)]
