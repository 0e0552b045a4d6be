"""The simulated scheduler starts jobs as the real one does: one small workload through both."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from tests.simcluster import SimCluster
from tests.slurm.minicluster import Minicluster, wait_for

JOBS = 12
APART_S = 6  # starts that are closer in the simulation may come the other way round: real ones take their time
Line = tuple[tuple[str, ...], int]  # sbatch options, seconds that it runs


def workload(seed: int) -> list[Line]:
    """Sizes, limits that say little about run times, and begin times."""
    rng = random.Random(seed)
    lines: list[Line] = []
    for _ in range(JOBS):
        gpus = rng.choice((1, 2, 3, 4, 4))
        options = [f"--gres=gpu:{gpus}", "-t", str(rng.choice((1, 2, 3, 5)))]
        if rng.random() < 0.3:
            options += ["-N2"]
        if rng.random() < 0.25:
            options += [f"--begin=now+{rng.choice((8, 20))}seconds"]
        lines.append((tuple(options), 8 * rng.randrange(1, 5)))
    return lines


def starts(cluster: Minicluster | SimCluster, lines: Sequence[Line], run: Callable[[list[int]], None]) -> list[int]:
    """When each job started, in seconds since the first. Nothing starts before all are submitted."""
    for node in cluster.nodes:
        cluster.drain(node)
    jobs = [cluster.submit(*options, wrap=f"sleep {seconds}") for options, seconds in lines]
    for node in cluster.nodes:
        cluster.resume(node)
    run(jobs)
    times = [when(cluster, job) for job in jobs]
    return [time - min(times) for time in times]


def when(cluster: Minicluster | SimCluster, job: int) -> int:
    if isinstance(cluster, SimCluster):
        return int(next(done.started for done in cluster.controller.done if done.record.id == job))
    return int(cluster.client("date", "-d", cluster.fields(job)["StartTime"], "+%s"))


@pytest.mark.slow
@pytest.mark.slurm("26.05")
@pytest.mark.parametrize("seed", [1, 2])
def test_both_start_the_same_jobs_in_the_same_order(make_minicluster: Callable[..., Minicluster], seed: int) -> None:
    lines = workload(seed)
    simulated = SimCluster("26.05", count=4)
    reckoned = starts(simulated, lines, lambda jobs: simulated.controller.run_until(simulated.controller.now + 900))
    real = make_minicluster("--nodes", "4", "--gpus", "4")

    def over(jobs: list[int]) -> None:
        wait_for(lambda: all(real.state(job) == "COMPLETED" for job in jobs), "all jobs have run", 300)

    seen = starts(real, lines, over)
    turned = [
        (one, other)
        for one in range(JOBS)
        for other in range(JOBS)
        if reckoned[one] + APART_S <= reckoned[other] and seen[one] > seen[other]
    ]
    assert turned == [], f"reckoned {reckoned}, seen {seen}: {lines}"
