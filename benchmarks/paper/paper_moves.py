"""Moves as pald makes them: a part or all of the jobs movable, and what equal slots on each node cost. Prints Markdown.

64 GPUs, three slow cards, 1,500 jobs of Philly-like sizes, 2.2 an hour, EASY, 60 s a restart; average JCT and makespan
against `packed`. `value` is pald's, within the default keys of `moves`; `assign` may give a job any set of GPUs.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from benchmarks.paper.paper_worlds import geomean, markdown, run, spread_of
from pal_slurm.scores import binned
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.synthetic import parse_recipe, synthetic_scores, synthetic_workload
from pal_slurm.sim.traces import Options

SLOW_CARDS, RESTART_S = 3, 60.0
COLUMNS = (("none", 0.0), ("value", 0.25), ("value", 1.0), ("assign", 0.25), ("assign", 1.0))

Ratios = dict[tuple[str, float], tuple[float, float, float]]  # average JCT, makespan, moves a job


def one(seed: int, jobs: int, per_hour: float) -> Ratios:
    table = binned(("A", "B", "C"), synthetic_scores(16, 4, seed, slow_cards=SLOW_CARDS))
    recipe = parse_recipe(f"synthetic:jobs={jobs},per_hour={per_hour}")
    work = synthetic_workload(recipe, Options(limit_factor=3.0), seed)
    packed = run("packed", work, table, fill="easy", moves=False)

    def against(ours: TraceOutcome) -> tuple[float, float, float]:
        return ours.avg_jct_s / packed.avg_jct_s, ours.makespan_s / packed.makespan_s, ours.moves / jobs

    return {
        (moving, share): against(
            run("pal", work.movable(share, seed), table, fill="easy", cost=RESTART_S, moving=moving, moves=share > 0)
        )
        for moving, share in COLUMNS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1500)
    parser.add_argument("--per-hour", type=float, default=2.2)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        drawn = list(pool.map(partial(one, jobs=options.jobs, per_hour=options.per_hour), range(options.seeds)))
    rows = []
    for column in COLUMNS:
        jct, makespan, moves = (np.array([ratios[column][i] for ratios in drawn]) for i in range(3))
        rows.append([column[0], f"{column[1]:.0%}", spread_of(jct), f"{geomean(makespan):.3f}", f"{moves.mean():.2f}"])
    markdown(["moving", "movable", "average JCT / packed", "makespan / packed", "moves a job"], rows)
    print(f"\n{options.seeds} seeds, {options.per_hour:g} jobs/h, {RESTART_S:g} s a restart")


if __name__ == "__main__":
    main()
