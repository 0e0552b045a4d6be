"""Scores learned from jobs: blame in probability, changes seen within the hour, doubts that are honest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log

import numpy as np
import pytest

from pal_slurm.intake.samples import STRETCH_S
from pal_slurm.learning.from_jobs import Learned, learn
from pal_slurm.model import App, Apps
from pal_slurm.scores.learning import PRIOR, Beliefs, expected, hear
from pal_slurm.scores.witness import UNMEASURED
from pal_slurm.store import GpuRepo, ScoreRepo, Sighting, Store
from pal_slurm.store.nights import NightRepo
from pal_slurm.store.samples import JobSample, SampleRepo
from tests.unit.longhorn import spearman

T0 = 1_790_000_400.0 - 1_790_000_400.0 % STRETCH_S


def beliefs(*means: float, sd: float = 0.02) -> Beliefs:
    return Beliefs(np.array(means), np.full(len(means), sd**2))


# One measurement -----


def test_a_job_on_one_gpu_moves_its_score_and_narrows_the_doubt() -> None:
    after = hear(beliefs(0.0, sd=PRIOR), log(1.1), 0.03)
    assert 0.08 < after.mean[0] < log(1.1)
    assert after.var[0] < 0.035**2


def test_the_slowest_is_blamed_and_the_others_are_only_no_slower() -> None:
    after = hear(beliefs(0.0, 0.0, 0.10, 0.0, sd=0.03), 0.14, 0.01)
    assert after.mean[2] > 0.115
    assert np.abs(after.mean[[0, 1, 3]]).max() < 0.03


def test_who_is_to_blame_is_open_where_nobody_stands_out() -> None:
    after = hear(beliefs(*[0.0] * 4, sd=PRIOR), 0.2, 0.02)
    assert np.allclose(after.mean, after.mean[0])
    assert 0.02 < after.mean[0] < 0.15


def test_a_fast_job_clears_all_of_its_gpus() -> None:
    after = hear(beliefs(0.0, 0.3, 0.0, sd=0.15), 0.0, 0.02)
    assert after.mean[1] < 0.06
    assert after.mean.max() < 0.06


def test_one_odd_measurement_moves_half_way_and_the_second_decides() -> None:
    first = hear(beliefs(0.0), log(1.5), 0.02)
    assert 0.1 < first.mean[0] < 0.3
    assert first.var[0] > 0.1**2
    second = hear(first, log(1.5), 0.02)
    assert second.mean[0] == pytest.approx(log(1.5), abs=0.04)
    back = hear(hear(second, 0.0, 0.02), 0.0, 0.02)
    assert back.mean[0] == pytest.approx(0.0, abs=0.04)


def test_a_disturbed_job_is_forgiven_by_the_next_good_one() -> None:
    after = hear(hear(beliefs(0.0), log(2.5), 0.02), 0.0, 0.02)
    assert after.mean[0] == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("ratio", [-50.0, -3.0, 3.0, 50.0])
@pytest.mark.parametrize("size", [1, 2, 16])
def test_absurd_measurements_leave_beliefs_finite(ratio: float, size: int) -> None:
    after = hear(beliefs(*[0.0] * size), ratio, 0.001)
    assert np.isfinite(after.mean).all()
    assert (after.var > 0).all()


def test_a_job_on_too_many_gpus_says_nothing_of_any() -> None:
    before = beliefs(*[0.0] * 300)
    assert hear(before, 1.0, 0.01) is before


def test_the_slowest_of_many_is_slower_than_each() -> None:
    pace = expected(beliefs(*[0.0] * 8, sd=0.1))
    draws = np.random.default_rng(1).normal(0, 0.1, (20_000, 8)).max(axis=1)
    assert pace.mean == pytest.approx(draws.mean(), abs=0.01)
    assert pace.var == pytest.approx(draws.var(), rel=0.3)


def test_beliefs_converge_to_the_truth_and_their_doubts_are_honest() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0, 0.05, 64)
    truth[[5, 40]] = log(1.4), log(1.8)
    mean, var = np.zeros(64), np.full(64, PRIOR**2)
    order = []
    for job in range(1600):
        size = rng.choice([1, 2, 4, 8], p=[0.4, 0.25, 0.25, 0.1])
        gpus = rng.choice(64, size, replace=False)
        after = hear(Beliefs(mean[gpus], var[gpus]), truth[gpus].max() + rng.normal(0, 0.03), 0.03)
        mean[gpus], var[gpus] = after.mean, after.var
        if job in (99, 399, 1599):
            order.append(spearman(mean, truth))
    assert order == sorted(order)
    assert order[-1] > 0.92
    assert exp(mean[40]) == pytest.approx(1.8, rel=0.05)
    assert np.mean(np.abs(mean - truth) < 1.96 * np.sqrt(var)) > 0.85


# With the store -----

APPS = Apps({"net": App("net", "A"), "told": App("told", "A", {"a100": 0.2})})


@dataclass
class Fleet:
    """GPUs with a truth, and jobs that run on them."""

    store: Store
    truth: dict[str, float]
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    jobs: int = 0
    users: dict[str, str] = field(default_factory=dict)  # of each job

    def start(self) -> None:
        GpuRepo(self.store).see([Sighting(u, f"n{i // 4}", i % 4, "a100") for i, u in enumerate(self.truth)], T0)

    def run(
        self, gpus: Sequence[str], at: float, stretches: int = 3, app: str = "net", base: float = 0.2, job: str = "",
        own: float = 0.0, user: str = "",
    ) -> str:  # fmt: skip
        """A job's stretches of ten minutes, each at the pace of the truth as it is now; users take turns."""
        self.jobs += not job
        job = job or str(self.jobs)
        user = self.users.setdefault(job, user or ("alice", "bob")[self.jobs % 2])
        samples = []
        for i in range(stretches):
            begun = at + i * STRETCH_S
            seconds = base * max(self.truth[g] for g in gpus) * exp(own + self.rng.gauss(0, 0.005))
            samples.append(
                JobSample(
                    f"{job}-{begun}",
                    "c",
                    job,
                    app,
                    "n0",
                    tuple(gpus),
                    begun,
                    begun + STRETCH_S - 1,
                    100,
                    seconds,
                    user=user,
                )
            )
        SampleRepo(self.store).add(samples)
        return job

    def learn(self, at: float) -> Learned:
        return learn(self.store, APPS, at)

    def score(self, gpu: str) -> float:
        return {s.uuid: s.score for s in ScoreRepo(self.store).placed()}.get(gpu, 1.0)

    def asked(self, gpu: str) -> float | None:
        return {s.uuid: s.asked for s in ScoreRepo(self.store).placed()}[gpu]


@pytest.fixture
def fleet(store: Store) -> Fleet:
    made = Fleet(store, {f"GPU-{i}": 1.0 for i in range(16)})
    made.start()
    return made


def warmed(fleet: Fleet, jobs: int = 30) -> float:
    """Enough jobs that the application is known; returns the time."""
    at = T0
    for _ in range(jobs):
        fleet.run(fleet.rng.sample(sorted(fleet.truth), 1), at)
        at += 3 * STRETCH_S
        fleet.learn(at + 120)
    return at


def test_a_slow_gpu_is_learned_from_jobs_alone(fleet: Fleet) -> None:
    fleet.truth["GPU-3"] = 1.3
    warmed(fleet, 120)
    assert fleet.score("GPU-3") == pytest.approx(1.3, rel=0.06)
    others = [fleet.score(g) for g in fleet.truth if g != "GPU-3"]
    assert max(others) < 1.08
    assert min(others) > 0.92


def test_a_sudden_slow_down_is_told_within_the_hour_and_counts_when_a_second_user_sees_it(fleet: Fleet) -> None:
    at = warmed(fleet)
    job = fleet.run(["GPU-5"], at, stretches=3, user="alice")
    fleet.learn(at + 3 * STRETCH_S + 120)
    assert fleet.score("GPU-5") < 1.1
    at += 3 * STRETCH_S
    fleet.truth["GPU-5"] = 1.5
    fleet.run(["GPU-5"], at, stretches=3, job=job)
    done = fleet.learn(at + 1800 + 120)
    assert fleet.score("GPU-5") <= exp(UNMEASURED) + 1e-9
    assert fleet.asked("GPU-5") == pytest.approx(1.5, rel=0.06)
    assert {alert.kind for alert in done.alerts} == {"asked"}
    assert "GPU-5" in done.alerts[0].said
    alerts = []
    for _ in range(2):
        at += 1800
        fleet.run(["GPU-5"], at, stretches=3, user="bob")
        alerts += fleet.learn(at + 1800 + 120).alerts
    assert fleet.score("GPU-5") == pytest.approx(1.5, rel=0.06)
    assert fleet.asked("GPU-5") is None
    at += 1800
    fleet.truth["GPU-5"] = 1.0
    fleet.run(["GPU-5"], at, stretches=3, job=job)
    fleet.learn(at + 1800 + 120)
    assert fleet.score("GPU-5") == pytest.approx(1.0, rel=0.06)
    assert "recovered" in {alert.kind for alert in NightRepo(fleet.store).alerts()}


def test_in_a_gang_the_blame_is_shared_until_other_jobs_tell_whose_it_is(fleet: Fleet) -> None:
    at = warmed(fleet)
    gang = ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    for user in ("alice", "bob"):
        fleet.truth["GPU-2"] = 1.0
        job = fleet.run(gang, at, stretches=3, user=user)
        fleet.truth["GPU-2"] = 1.5
        fleet.run(gang, at + 1800, stretches=3, job=job)
        fleet.learn(at + 3720)
        suspects = [fleet.score(g) for g in gang]
        assert all(1.02 < s < 1.4 for s in suspects)
        at += 3600
    for user in ("alice", "bob"):
        for gpu in gang:
            fleet.run([gpu], at, user=user)
        fleet.learn(at + 1920)
        at += 1800
    assert fleet.score("GPU-2") == pytest.approx(1.5, rel=0.1)
    assert max(fleet.score(g) for g in gang if g != "GPU-2") < 1.1


def test_a_user_whose_job_is_slower_by_itself_blames_no_gpu_for_long(fleet: Fleet) -> None:
    at = warmed(fleet, 40)
    fleet.run(["GPU-7"], at, stretches=12, own=log(1.6))
    fleet.learn(at + 12 * STRETCH_S + 120)
    blamed = fleet.score("GPU-7")
    at += 12 * STRETCH_S
    for _ in range(3):
        fleet.run(["GPU-7"], at)
        at += 3 * STRETCH_S
        fleet.learn(at + 120)
    assert fleet.score("GPU-7") < blamed
    assert fleet.score("GPU-7") < 1.08


def test_a_job_that_keeps_its_pace_counts_once_however_long_it_runs(fleet: Fleet) -> None:
    at = warmed(fleet, 20)
    job = fleet.run(["GPU-9"], at, stretches=3, own=log(1.05))
    fleet.learn(at + 1920)
    once = {s.uuid: (s.score, s.ci_high) for s in ScoreRepo(fleet.store).placed()}["GPU-9"]
    fleet.run(["GPU-9"], at + 1800, stretches=100, job=job, own=log(1.05))
    fleet.learn(at + 103 * STRETCH_S + 120)
    again = {s.uuid: (s.score, s.ci_high) for s in ScoreRepo(fleet.store).placed()}["GPU-9"]
    assert again[0] == pytest.approx(once[0], rel=0.03)


def test_an_application_that_nobody_knows_teaches_nothing(fleet: Fleet) -> None:
    fleet.run(["GPU-1"], T0, app="mystery")
    assert fleet.learn(T0 + 1920).scores == 0
    assert SampleRepo(fleet.store).unheard(T0 + 10_000) == []


def test_samples_are_heard_once(fleet: Fleet) -> None:
    fleet.run(["GPU-1"], T0)
    assert fleet.learn(T0 + 1920).samples == 3
    assert fleet.learn(T0 + 1980).samples == 0


def test_a_young_job_waits_and_a_short_one_is_heard_when_it_is_over(fleet: Fleet) -> None:
    fleet.run(["GPU-1"], T0, stretches=1)
    assert fleet.learn(T0 + 700).samples == 0
    assert fleet.learn(T0 + 3000).samples == 1


def test_a_base_that_pal_yaml_tells_is_where_learning_begins(fleet: Fleet) -> None:
    fleet.truth["GPU-2"] = 1.4
    fleet.run(["GPU-2"], T0, app="told")
    fleet.learn(T0 + 1920)
    assert fleet.score("GPU-2") > 1.05
    fleet.run(["GPU-3"], T0, app="net", base=0.9)
    fleet.learn(T0 + 1921)
    assert fleet.score("GPU-3") == pytest.approx(1.0, abs=0.02)


def test_gpus_that_nobody_has_seen_are_left_out(fleet: Fleet) -> None:
    fleet.truth["GPU-99"] = 1.0
    fleet.run(["GPU-99"], T0)
    assert fleet.learn(T0 + 1920).scores == 0
