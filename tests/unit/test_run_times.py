"""How long a job will run, by those that have ended: its kind's word, a share of its limit, or a short guess."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from pal_slurm.model import Hint, RunTimes, named
from pal_slurm.model.run_times import MOST_KINDS, PRIOR_S
from tests.builders import waiting


def taught(*ended: tuple[str, str, str, float | None, float], many: int = 50) -> RunTimes:
    times = RunTimes()
    for _ in range(many):
        for user, app, name, limit_s, ran_s in ended:
            times.ended(user, app, named(name), limit_s, ran_s)
    return times


@pytest.mark.parametrize(
    ("times", "seconds", "within"),
    [
        (RunTimes(), PRIOR_S, 0.0),
        (taught(("u", "bert", "train", None, 500.0)), 500.0, 0.02),
        (taught(("u", "bert", "other", None, 500.0)), 500.0, 0.02),  # of another name
        (taught(("u", "gpt", "train", None, 500.0)), 500.0, 0.15),  # of another application
        (taught(("u", "bert", "train", None, 500.0), ("u", "bert", "test", None, 5.0)), 500.0, 0.2),
        (taught(("u", "bert", "other", 100.0, 50.0), ("u", "bert", "more", 10_000.0, 5_000.0)), 1_800.0, 0.1),
        (taught(("u", "bert", "train", 100.0, 1e9)), 3_600.0, 0.01),  # never more than its limit
        (taught(("other", "bert", "train", None, 500.0)), PRIOR_S, 0.0),
        (taught(*[(f"u{n}", "bert", "train", None, 500.0) for n in range(300)], many=1), 500.0, 0.03),
    ],
)
def test_the_most_similar_jobs_that_have_ended_say_how_long_a_job_runs(
    times: RunTimes, seconds: float, within: float
) -> None:
    job = waiting(1, hint=Hint("bert"), name="train", time_limit_s=3600)
    assert times.of(job).seconds == pytest.approx(seconds, rel=within + 1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_a_job_that_did_not_run_to_its_end_makes_no_estimate_of_its_users_jobs_shorter(seed: int) -> None:
    draw = random.Random(seed)
    times = RunTimes()

    def some() -> tuple[str, str, str, float | None, float]:
        limit_s = draw.choice((None, 600.0, 3600.0, 86_400.0))
        ran_s = min(math.exp(draw.uniform(0, 11)), limit_s or math.inf)
        return "u", draw.choice(("bert", "gpt")), named(draw.choice(("a", "b"))), limit_s, ran_s

    for _ in range(draw.choice((0, 1, 8, 30))):
        times.ended(*some())
    longer = 0
    for _ in range(20):
        job = some()
        was = times.like(*job[:4]).seconds
        times.ended(*job, cut=True)
        now = times.like(*job[:4]).seconds
        assert now >= was * (1 - 1e-9)
        longer += now > was
    assert longer


HOUR = taught(("u", "bert", "train", None, 3600.0))


@pytest.mark.parametrize(
    ("times", "ran_s", "rest_s"),
    [(HOUR, 600, 3000), (HOUR, 3500, 100), (HOUR, 5000, 5000), *[(RunTimes(), s, s) for s in (40, 59, 61, 600, 3600)]],
)
def test_what_has_run_for_long_or_is_not_known_runs_as_long_again(times: RunTimes, ran_s: int, rest_s: int) -> None:
    job = waiting(1, hint=Hint("bert"), name="train")
    assert times.of(replace(job, user="u")).rest(ran_s) == pytest.approx(rest_s, abs=60 if times is HOUR else 1e-6)


@pytest.mark.parametrize("users", [2, 3, 10, 100])
@pytest.mark.parametrize("claims_s", [0.0, 1e9])
def test_no_user_moves_the_estimate_of_others_jobs_by_more_than_one_vote(users: int, claims_s: float) -> None:
    """P12: however many jobs he runs, of whatever length and limits; and what others have shown of theirs stands."""
    usual = [(f"u{n}", "bert", "train", None, 600.0 + n) for n in range(users - 1)]
    bad = [("bad", f"app{n}", f"name{n}", 60.0 + n, claims_s) for n in range(50)]
    honest, beside = taught(*usual), taught(*usual, *bad)
    stays = honest.like("u0", "bert", named("train"), None)
    assert beside.like("u0", "bert", named("train"), None).seconds == pytest.approx(stays.seconds, rel=0.05)
    for times in (honest, beside):
        assert PRIOR_S * 0.99 <= times.like("new", "", "", None).seconds <= 600.0 + users
        assert users < 10 or times.like("new", "", "", None).seconds > 300.0


def test_a_user_of_countless_names_forgets_his_own_jobs_only() -> None:
    times = taught(("u", "bert", "train", None, 500.0), ("bad", "bert", "first", None, 500.0), many=200)
    for number in range(MOST_KINDS + 1):
        times.ended("bad", "gpt", named(f"{number}"), None, 1.0)
    assert times.like("u", "bert", named("train"), None).seconds == pytest.approx(500.0, rel=0.02)
    assert times.like("bad", "bert", named("first"), None).seconds < 250.0
    assert len(list(times.kinds(1, 1e9))) == 2


@pytest.mark.parametrize("limit_s", [0.0, -60.0])
def test_a_limit_that_can_be_none_tells_nothing(limit_s: float) -> None:
    odd, none = RunTimes(), RunTimes()
    for times, limit in ((odd, limit_s), (none, None)):
        for _ in range(10):
            times.ended("u", "a", "", limit, 3600.0)
    assert odd.like("u", "a", "", limit_s) == none.like("u", "a", "", None)
