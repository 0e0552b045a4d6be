"""When waiting jobs will probably start: by those who run, in the order, and as exactly as run times are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest

from pal_slurm.model import (
    App,
    Apps,
    Cluster,
    Hint,
    Job,
    JobState,
    Knowledge,
    Lease,
    Request,
    Reservation,
    RunTimes,
    Snapshot,
    Waits,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy.composition import compose
from pal_slurm.policy.seams import fills
from pal_slurm.policy.start_forecast import MOST, Ahead, StartForecast, start_forecasts
from pal_slurm.scores import binned
from pal_slurm.sim.engine import Engine, Stage
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.synthetic import parse_recipe, synthetic_scores, synthetic_workload
from pal_slurm.sim.traces import Options
from pal_slurm.sim.workload import Work, Workload
from tests.builders import NOW, leased, running, snapshot, waiting

EASY = fills.get("easy")
TAUGHT = 60  # jobs, from the first on: run times are not known yet
LIMITS = tuple(3600.0 * hours for hours in (1, 2, 4, 8, 24, 48, 96, 192))  # as people ask for them


ONE = homogeneous(1, 4)
APPS = Apps({"known": App("known", "A"), "other": App("other", "A")})
KNOWN = Hint("known")


def learned(seconds: float = 1000.0, ended: int = 60) -> RunTimes:
    """Jobs of `known` run for that, near enough; of others nothing is known."""
    times, rng = RunTimes(), np.random.default_rng(1)
    for _ in range(ended):
        times.ended("u", "known", "", None, seconds * float(rng.uniform(0.95, 1.05)))
    return times


def told(
    *jobs: Job, cluster: Cluster = ONE, times: RunTimes | None = None, windows: tuple[Reservation, ...] = (),
    declining: Mapping[int, float] | None = None, draws: int = 40, over: Callable[[], bool] = lambda: False,
) -> dict[int, StartForecast]:  # fmt: skip
    """Of those who wait, in the order in which they are named, on the nodes that the others leave."""
    free = cluster.gpu_free.copy()
    for job in jobs:
        for node, slots in zip(job.nodes, job.gpus, strict=True):
            free[cluster.node_index[node], list(slots)] = False
    look = snapshot(*jobs, cluster=replace(cluster, gpu_free=free), windows=windows)
    order = [job.id for job in jobs if job.pending]
    knows = Knowledge(neutral_scores(cluster), APPS)
    ahead = Ahead(look, knows, times or learned(), EASY, order, declining or {})
    return start_forecasts(ahead, over, draws)


def busy(gpus: int = 4, ran: int = 400, end: int | None = NOW + 86_400, **facts: Any) -> Job:
    return running(1, {"n1": tuple(range(gpus))}, end, **{"start": NOW - ran, "hint": KNOWN, **facts})


AWAY: dict[str, Any] = {"why": Waits.BLOCKED, "dependency": "afterok:7"}
CASES: dict[str, tuple[Sequence[Job], dict[int, float | None]]] = {
    "what is free is had at once": ([leased(2, 2), leased(3, 2)], {2: 0, 3: 0}),
    "not the limit of who runs tells, but how long its like ran": ([busy(), leased(2, 4)], {2: 600}),
    "it ends at its limit at latest": ([busy(end=NOW + 90), leased(2, 4)], {2: 90}),
    "no room that anybody knows of": ([busy(2), leased(2, 8)], {2: None}),
    "held": ([leased(2, 1, why=Waits.HELD)], {2: None}),
    "a dependency": ([leased(2, 1, **AWAY), leased(3, 4)], {2: None, 3: 0}),
    "a limit of its user": ([leased(2, 1, limited=True)], {2: None}),
    "its user's own begin time": (
        [leased(2, 1, until=NOW + 500, lease=Lease(NOW + 500, Request(), not_before=NOW + 500))], {2: 500},
    ),
    "not ours, and it competes": ([waiting(2, 4, eligible=NOW - 9, why=Waits.ROOM), leased(3, 4)], {2: 0, 3: 1000}),
    "a short one passes the head, a long one does not": (
        [
            busy(3, ran=0, end=NOW + 1100), leased(2, 4, hint=KNOWN, time_limit_s=1100),
            leased(3, 1, time_limit_s=9000), leased(4, 1, time_limit_s=900),
        ],
        {2: 1000, 3: 2000, 4: 0},
    ),
    "one behind the other": (
        [busy(), *(leased(n, 4, hint=KNOWN, time_limit_s=9000) for n in (2, 3, 4))], {2: 600, 3: 1600, 4: 2600},
    ),
    "as many tasks of an array as it says": (
        [
            busy(1, array_id=9, array_task=1), leased(9, 1, array_id=9, array_tasks=(2, 3), array_limit=1),
            leased(10, 3),
        ],
        {9: 600, 10: 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_job_is_expected_when_there_is_room_for_it(case: str) -> None:
    jobs, expected = CASES[case]
    found = told(*jobs)
    assert found.keys() == {job for job, after in expected.items() if after is not None}
    for job, after in expected.items():
        if after is not None:
            assert found[job].expected - NOW == pytest.approx(after, rel=0.08, abs=5.0), job
            assert found[job].early <= found[job].expected <= found[job].late


def test_the_less_is_known_of_run_times_the_wider_the_range() -> None:
    sure = told(busy(), leased(2, 4))[2]
    unsure = told(busy(hint=Hint("other"), user="stranger"), leased(2, 4), times=RunTimes())[2]
    assert sure.late - sure.early < 600 < 3 * 600 < unsure.late - unsure.early


def test_who_runs_longer_than_its_like_may_go_on_as_long_again() -> None:
    long = told(busy(ran=5000), leased(2, 4))[2]
    assert NOW + 1000 < long.expected < NOW + 20_000


def test_a_job_that_would_run_into_a_reservation_is_expected_after_it() -> None:
    window = Reservation("work", frozenset({"n1"}), NOW + 600, NOW + 4000)
    found = told(leased(2, 1, time_limit_s=900), leased(3, 1, time_limit_s=300), windows=(window,))
    assert found[3].expected == NOW and found[2].expected == pytest.approx(NOW + 4000, abs=60)


def test_who_rather_waits_for_better_gpus_is_expected_before_its_patience_ends() -> None:
    found = told(leased(2, 1), declining={2: NOW + 1000.0})[2]
    assert NOW <= found.early < found.expected < NOW + 1000 < found.late < NOW + 1400


def test_gpus_that_are_taken_and_that_no_job_has_come_free_at_no_known_time() -> None:
    taken = replace(ONE, gpu_free=np.zeros((1, 4), dtype=np.bool_))
    assert told(leased(2, 1), cluster=taken) == {}


def test_the_first_ones_are_told_and_none_where_it_takes_too_long() -> None:
    jobs = [leased(n, 1, time_limit_s=600) for n in range(2, MOST + 50)]
    found = told(busy(), *jobs, draws=5)
    assert sorted(found) == list(range(2, MOST + 2))
    assert told(busy(), *jobs, over=lambda: True) == {}


def test_the_same_look_gives_the_same_forecast() -> None:
    jobs = [busy(), *(leased(n, 1 + n % 4, time_limit_s=600 * n) for n in range(2, 30))]
    assert told(*jobs) == told(*jobs)


class Watched(InPlanner):
    """It asks for a forecast of each job that has just come and waits."""

    def __init__(self, work: Workload, seed: int) -> None:
        table = binned(("A", "B", "C"), synthetic_scores(16, 4, seed, slow_cards=3))
        super().__init__("watched", homogeneous(16, 4), table, compose("packed", fill="easy", order="fifo"))
        self.forecasts: dict[int, tuple[float, StartForecast | None]] = {}
        self.knowledge = Knowledge(table, Apps({one.app.name: one.app for one in work.works}))
        outcome = Engine(homogeneous(16, 4), table, work, self).run()
        self.starts = dict(zip(outcome.job_ids.tolist(), outcome.start_s.tolist(), strict=True))

    def act(self, stage: Stage) -> None:
        super().act(stage)
        new = [job for job in self._planner.queue.waiting if job not in self.forecasts]
        if new:
            found = start_forecasts(self.ahead(stage.now), draws=12)
            self.forecasts |= {job: (stage.now, found.get(job)) for job in new}

    def ahead(self, now: float) -> Ahead:
        """As pald sees such a queue: all leased."""
        planner = self._planner
        entries = sorted(planner.queue.waiting.values(), key=lambda entry: entry.place.key)
        pending = tuple(
            replace(e.place.job, hint=Hint(e.app.name), lease=Lease(int(now) + 60, Request()), eligible=int(now) + 60)
            for e in entries
        )
        runs = tuple(
            replace(
                job, state=JobState.RUNNING, hint=Hint(self._runs[number].work.app.name), nodes=where.nodes,
                gpus=where.gpus, start=int(self._runs[number].started),
                end=int(self._runs[number].started + (job.time_limit_s or 0)),
            )
            for number, (job, where) in planner.running.items()
        )  # fmt: skip
        cluster = replace(planner.cluster, gpu_free=planner.floor.free.copy())
        look = Snapshot(now, cluster, pending, runs)
        return Ahead(look, self.knowledge, planner.facts.run_times, EASY, [job.id for job in pending])


def trace(seed: int, *, guessed: bool) -> Workload:
    """`guessed`: limits are those of LIMITS that people ask for, else three times what the job needs."""
    work = synthetic_workload(parse_recipe("synthetic:jobs=240,per_hour=3"), Options(limit_factor=3.0), seed)
    if not guessed:
        return work
    rng = np.random.default_rng([seed, 99])

    def with_limit(one: Work) -> Work:
        least = one.ideal_s() * float(rng.uniform(1.3, 4.0))
        return replace(one, limit_s=next((limit for limit in LIMITS if limit >= least), least), user=f"u{one.id % 20}")

    return replace(work, works=tuple(map(with_limit, work.works)))


def accuracy(seed: int, *, guessed: bool) -> tuple[list[float], list[float], list[bool]]:
    """Of the jobs that waited: the error and the wait in hours, and whether it started within the range."""
    seen = Watched(trace(seed, guessed=guessed), seed)
    errors, waits, within = [], [], []
    for job, (at, found) in seen.forecasts.items():
        if job < TAUGHT:
            continue
        assert found is not None
        errors.append(abs(seen.starts[job] - found.expected) / 3600)
        waits.append((seen.starts[job] - at) / 3600)
        within.append(found.early - 60 <= seen.starts[job] <= found.late + 60)
    return errors, waits, within


@pytest.mark.parametrize(("guessed", "median", "most"), [(False, 0.6, 3.0), (True, 1.2, 7.0)])
def test_the_forecast_at_submission_is_near_the_start(guessed: bool, median: float, most: float) -> None:
    """On 64 GPUs with queues of hours; `-s` tells the figures."""
    errors, waits, within = (
        list(chain(*each)) for each in zip(*(accuracy(s, guessed=guessed) for s in (1, 2)), strict=True)
    )
    half, nine = np.percentile(errors, (50, 90)).tolist()
    print(
        f"limits {'guessed' if guessed else 'three times the need'}: {len(errors)} jobs waited {np.mean(waits):.2f} h "
        f"(median {np.median(waits):.2f}); error median {half:.2f} h, 90 % {nine:.2f} h; in range {np.mean(within):.0%}"
    )
    assert half <= median and nine <= most
    assert np.mean(within) >= 0.7
    assert half < 0.5 * float(np.median(waits))
