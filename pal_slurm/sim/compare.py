"""Policies side by side. In: policies, a trace, scores, seeds. Out: outcomes per seed; means, ratios and intervals.

All policies see the same seed's trace and scores, so ratios are taken seed by seed; what a seed draws: worlds.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pal_slurm.scores.student import t95
from pal_slurm.sim.engine import Engine, OnProgress
from pal_slurm.sim.outcome import DEFINITIONS, SIZES, OfSize, TraceOutcome
from pal_slurm.sim.policies import POLICIES, Policies, PolicySpec, Setting
from pal_slurm.sim.worlds import World

COUNTS = frozenset({"jobs", "moves", "restarts"})
RATIOS = ("avg_jct_s", "p99_jct_s", "makespan_s")


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and how far the 95 % interval reaches to either side; None where one value can't tell."""

    mean: float
    reach: float | None


@dataclass(frozen=True, slots=True)
class Column:
    """One policy's outcomes, one per seed."""

    spec: PolicySpec
    outcomes: tuple[TraceOutcome, ...]

    def figures(self) -> Mapping[str, float]:
        """Every figure, averaged over the seeds."""
        each = [outcome.figures() for outcome in self.outcomes]
        return {name: sum(figures[name] for figures in each) / len(each) for name in each[0]}

    def sizes(self) -> dict[str, OfSize]:
        """Each size class, averaged over the seeds that have jobs of it; its jobs over all seeds."""
        each = [outcome.sizes() for outcome in self.outcomes]
        found = {}
        for name in SIZES:
            if some := [sizes[name] for sizes in each if name in sizes]:
                jobs, avg, p99 = (math.fsum(values) for values in zip(*some, strict=True))
                found[name] = OfSize(jobs / len(each), avg / len(some), p99 / len(some))
        return found

    def interval(self, name: str) -> Interval:
        return interval([outcome.figures()[name] for outcome in self.outcomes])

    def ratio_to(self, first: Column, name: str) -> Interval:
        pairs = zip(self.outcomes, first.outcomes, strict=True)
        return interval([mine.figures()[name] / theirs.figures()[name] for mine, theirs in pairs])


def interval(values: Sequence[float]) -> Interval:
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Interval(mean, None)
    return Interval(mean, t95(len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values)))


def compare(
    specs: Sequence[PolicySpec],
    setting: Setting,
    world: Callable[[int], World],
    seeds: Sequence[int],
    progress: OnProgress | None = None,
    policies: Policies = POLICIES,
) -> list[Column]:
    """Every policy on every seed."""
    outcomes: list[list[TraceOutcome]] = [[] for _ in specs]
    total = 1000 * len(specs) * len(seeds)
    for i, seed in enumerate(seeds):
        drawn = world(seed)
        for j, spec in enumerate(specs):
            before = 1000 * (i * len(specs) + j)
            scheduler = policies.scheduler(spec, setting, drawn.known, seed, drawn.pairs)
            engine = Engine(setting.cluster, drawn.truth, drawn.load, scheduler, setting.rules, sharing=drawn.sharing)
            outcomes[j].append(engine.run(share(progress, before, total)))
    return [Column(spec, tuple(ran)) for spec, ran in zip(specs, outcomes, strict=True)]


def share(progress: OnProgress | None, before: int, total: int) -> OnProgress | None:
    """One run's progress as its share of the whole."""
    if progress is None:
        return None
    return lambda done, of: progress(before + 1000 * done // max(of, 1), total)


def as_json(columns: Sequence[Column], setting: Setting, seeds: Sequence[int]) -> list[dict[str, object]]:
    """The list that --json writes: one object per policy; figures are means over the seeds."""
    out: list[dict[str, object]] = []
    for column in columns:
        figures = dict(column.figures())
        entry: dict[str, object] = {"policy": column.spec.label}
        entry |= _whole(figures)
        entry["sizes"] = [{"gpus": name, **_whole(of._asdict())} for name, of in column.sizes().items()]
        entry["ratio_to_first"] = {
            name: {"mean": r.mean, "ci95": r.reach} for name in RATIOS for r in (column.ratio_to(columns[0], name),)
        }
        entry["ci95"] = {name: column.interval(name).reach for name in figures if name != "jobs"}
        entry["seeds"] = list(seeds)
        entry["gpus"] = setting.cluster.n_gpus
        entry["order"] = column.spec.order or "fifo"
        entry["fill"] = column.spec.fill
        entry["definitions"] = dict(DEFINITIONS)
        out.append(entry)
    return out


def _whole(figures: Mapping[str, float]) -> dict[str, float]:
    """Counts as whole numbers, where they are."""
    return {name: int(value) if name in COUNTS and value == int(value) else value for name, value in figures.items()}
