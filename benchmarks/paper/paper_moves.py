"""The acceptance benchmark: `pal` against `packed`, by size class, without moves and with. Prints Markdown.

64 GPUs, three slow cards, 1,500 jobs of Philly-like sizes, EASY, 60 s a restart, at each of the loads. All of it is
code that pald runs: no moves, or `value` within the default keys of `moves`. Ratios are geometric means over the seeds;
beside those of the size classes stands the mean JCT of their jobs, in hours. A bound that is not kept is named, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.paper.paper_worlds import geomean, markdown, run, spread_of
from pal_slurm.scores import binned
from pal_slurm.sim.outcome import SIZES, TraceOutcome
from pal_slurm.sim.synthetic import parse_recipe, synthetic_scores, synthetic_workload
from pal_slurm.sim.traces import Options

SLOW_CARDS, RESTART_S = 3, 60.0
OF_SIZE = 1.05  # of packed: the mean JCT of any size class, at most
OVERALL = {(2.2, 0.0): 0.83, (2.2, 1.0): 0.75}  # by load and share of jobs that may be moved: the mean JCT, at most
FIGURES = ("avg_jct_s", "p99_jct_s", "makespan_s")


class Told(NamedTuple):
    """One policy on one seed."""

    figures: dict[str, float]
    sizes: dict[str, float]  # mean JCT by size class
    moves: int  # restarts among them


class Column(NamedTuple):
    """One load and share of movable jobs: `pal` and packed, seed by seed."""

    per_hour: float
    movable: float
    ours: list[Told]
    packed: list[Told]

    def ratios(self, name: str) -> list[float]:
        return [mine.figures[name] / base.figures[name] for mine, base in zip(self.ours, self.packed, strict=True)]

    def of_size(self, size: str) -> list[float]:
        """Of the seeds that have jobs of that size."""
        pairs = zip(self.ours, self.packed, strict=True)
        return [mine.sizes[size] / base.sizes[size] for mine, base in pairs if size in base.sizes]

    def hours(self, size: str) -> float:
        return float(np.mean([told.sizes[size] for told in self.ours if size in told.sizes])) / 3600


def told(outcome: TraceOutcome) -> Told:
    sizes = {size: of.avg_jct_s for size, of in outcome.sizes().items()}
    return Told({name: outcome.figures()[name] for name in FIGURES}, sizes, outcome.moves + outcome.restarts)


def one(seed: int, per_hour: float, jobs: int, shares: Sequence[float]) -> tuple[Told, list[Told]]:
    """Packed, and `pal` for each share of jobs that may be moved."""
    table = binned(("A", "B", "C"), synthetic_scores(16, 4, seed, slow_cards=SLOW_CARDS))
    recipe = parse_recipe(f"synthetic:jobs={jobs},per_hour={per_hour}")
    work = synthetic_workload(recipe, Options(limit_factor=3.0), seed)
    packed = told(run("packed", work, table, fill="easy", moves=False))
    ours = []
    for share in shares:
        movable = work.movable(share, seed)
        ours.append(told(run("pal", movable, table, fill="easy", cost=RESTART_S, moves=share > 0)))
    return packed, ours


def columns(seeds: int, jobs: int, loads: Sequence[float], shares: Sequence[float], processes: int) -> list[Column]:
    worlds = list(product(loads, range(seeds)))
    with ProcessPoolExecutor(processes) as pool:
        made = [pool.submit(one, seed, per_hour, jobs, shares) for per_hour, seed in worlds]
        found = {world: future.result() for world, future in zip(worlds, made, strict=True)}
    return [
        Column(
            per_hour,
            share,
            [found[per_hour, seed][1][i] for seed in range(seeds)],
            [found[per_hour, seed][0] for seed in range(seeds)],
        )
        for i, share in enumerate(shares)
        for per_hour in loads
    ]


def broken(column: Column) -> Iterator[str]:
    """The bounds that it does not keep."""
    where = f"{column.per_hour:g} jobs/h, {column.movable:.0%} movable"
    most = OVERALL.get((column.per_hour, column.movable))
    if most is not None and (jct := geomean(column.ratios("avg_jct_s"))) > most:
        yield f"{where}: average JCT {jct:.3f} of packed, over {most:g}"
    for size in SIZES:
        if (ratios := column.of_size(size)) and (jct := geomean(ratios)) > OF_SIZE:
            yield f"{where}: jobs of {size} GPUs {jct:.3f} of packed, over {OF_SIZE:g}"


def row(column: Column, sizes: Sequence[str], jobs: int) -> list[str]:
    moves = float(np.mean([told.moves for told in column.ours])) / jobs
    return [
        f"{column.per_hour:g}",
        f"{column.movable:.0%}",
        spread_of(np.array(column.ratios("avg_jct_s"))),
        f"{geomean(column.ratios('p99_jct_s')):.3f}",
        f"{geomean(column.ratios('makespan_s')):.3f}",
        *(f"{geomean(column.of_size(size)):.3f} ({column.hours(size):.1f} h)" for size in sizes),
        f"{moves:.2f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--per-hour", type=float, nargs="+", default=[1.5, 2.2, 3.0])
    parser.add_argument("--movable", type=float, nargs="+", default=[0.0, 1.0], help="shares of the jobs")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    found = columns(options.seeds, options.jobs, options.per_hour, options.movable, options.processes)
    sizes = [size for size in SIZES if all(column.of_size(size) for column in found)]
    head = ["jobs/h", "movable", "average JCT / packed", "99 % JCT", "makespan"]
    head += [f"{size} GPU{'s' * (size != '1')}" for size in sizes] + ["moves a job"]
    markdown(head, [row(column, sizes, options.jobs) for column in found])
    print(f"\n{options.seeds} seeds, {RESTART_S:g} s a restart")
    wrong = [said for column in found for said in broken(column)]
    for said in wrong:
        print(f"not kept: {said}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
