"""Whether jobs really ran slower on the GPUs that the scores call slow. In: accounting rows, scores. Out: Seen.

A user's jobs of one name, limit and number of GPUs and nodes are taken for repeated runs. Within each set run times are
held against the scores that its nodes' GPUs are expected to have had, in logarithms, by least squares: a slope of 1 is
what the scores say, 0 is no trace of them. The interval does not assume that run times scatter alike in all sets.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pal_slurm.model import Apps, Cluster, ScoreTable
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.scores.student import t95
from pal_slurm.sim.accounted import ExpectedWorst
from pal_slurm.sim.traces.sacct import Ran

LEAST_RUNS = 3  # of a set
LEAST_JOBS = 10  # of all sets together: fewer say nothing
APART = 0.02  # so far the scores of a set's GPUs lie apart at least
SLOW = 1.1  # what is told is told of GPUs that are 10 % slower


@dataclass(frozen=True, slots=True)
class Seen:
    """How much longer repeated jobs ran where the scores expect 10 %, as a share; None: too few such jobs."""

    sets: int
    jobs: int
    longer: float | None = None
    low: float | None = None  # 95 %
    high: float | None = None

    @property
    def visible(self) -> bool:
        return self.low is not None and self.low > 0


def seen_in(rans: Sequence[Ran], cluster: Cluster, scores: ScoreTable, apps: Apps) -> Seen:
    """Jobs of unknown applications count as the default class."""
    expected = ExpectedWorst(scores)
    sets: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for ran in rans:
        rows = tuple(sorted(cluster.node_index[name] for name in expand_hosts(ran.node_list) or ()))
        models = {int(cluster.gpu_model[row, 0]) for row in rows}
        if not ran.title or not ran.user or not ran.whole or len(models) != 1:
            continue
        worst = expected(scores.index(apps.get(ran.app, ran.user).cls), rows, ran.gpus)
        alike = (ran.user, ran.title, ran.app, ran.gpus, len(rows), ran.limit_s, models.pop())
        sets[alike].append((math.log(worst), math.log(ran.end - ran.start)))
    wide = [
        np.array(runs)
        for runs in sets.values()
        if len(runs) >= LEAST_RUNS and max(runs)[0] - min(runs)[0] >= math.log1p(APART)
    ]
    jobs = sum(map(len, wide))
    if jobs < LEAST_JOBS:
        return Seen(len(wide), jobs)
    apart = np.concatenate([runs - runs.mean(axis=0) for runs in wide])
    score, time = apart[:, 0], apart[:, 1]
    square = float(score @ score)
    slope = float(score @ time) / square
    free = jobs - len(wide) - 1
    error = math.sqrt(float((score * (time - slope * score)) @ (score * (time - slope * score))) * jobs / free) / square
    low, mean, high = (SLOW**power - 1 for power in (slope - t95(free) * error, slope, slope + t95(free) * error))
    return Seen(len(wide), jobs, mean, low, high)


def sentence(seen: Seen) -> str:
    """How it is known that slow GPUs cost jobs time."""
    sets = f"{seen.jobs} repeated jobs in {seen.sets} sets of one user, name, size and limit"
    if seen.longer is None or seen.low is None or seen.high is None:
        found = f"only {sets}" if seen.jobs else "no jobs of one user, name, size and limit"
        return (
            f"That slow GPUs cost your jobs time is not visible in your accounting: {found} ran on GPUs whose scores "
            f"lie {100 * APART:.0f} % apart. The figures rest on the scores alone."
        )
    took = f"{100 * seen.longer:.1f} % longer (95 %: {100 * seen.low:.1f} to {100 * seen.high:.1f})"
    if seen.visible:
        return f"Your accounting shows it: {sets} ran {took} where the scores expect {100 * (SLOW - 1):.0f} %."
    return (
        f"That slow GPUs cost your jobs time is not visible in your accounting: {sets} ran {took} where the scores "
        f"expect {100 * (SLOW - 1):.0f} %. The figures rest on the scores alone."
    )
