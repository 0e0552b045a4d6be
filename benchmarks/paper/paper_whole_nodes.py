"""Without moves: `packed`, `lv` and `thrift`, with and without patience, by load. Prints Markdown.

Average JCT and makespan against `packed` without patience. Synthetic: 16 nodes of 4 GPUs, 1,500 jobs of Philly-like
sizes, EASY backfill. The last column moves jobs too, as pald does.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.paper.paper_worlds import CLUSTER, geomean, markdown, run, spread_of
from pal_slurm.scores import binned
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.synthetic import parse_recipe, synthetic_scores, synthetic_workload
from pal_slurm.sim.traces import Options

PARTS = {
    "packed, earlier-finish": ("packed", "earlier-finish"),
    "lv": ("lv", "none"),
    "lv, earlier-finish": ("lv", "earlier-finish"),
    "thrift": ("thrift", "none"),
    "thrift, earlier-finish (`pal`)": ("thrift", "earlier-finish"),
}


def against(ours: TraceOutcome, packed: TraceOutcome) -> tuple[float, float]:
    return ours.avg_jct_s / packed.avg_jct_s, ours.makespan_s / packed.makespan_s


def cell(ratios: list[tuple[float, float]]) -> str:
    jct, makespan = zip(*ratios, strict=True)
    return f"{spread_of(np.array(jct))} / {geomean(makespan):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    rows = []
    for slow in (0, 3):
        for per_hour in (1.5, 2.2, 3.0):
            ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in (*PARTS, "moves")}
            for seed in range(options.seeds):
                table = binned(("A", "B", "C"), synthetic_scores(16, 4, seed, slow_cards=slow))
                recipe = parse_recipe(f"synthetic:jobs=1500,per_hour={per_hour}")
                work = synthetic_workload(recipe, Options(limit_factor=3.0), seed)
                packed = run("packed", work, table, fill="easy", moves=False)
                for name, (placement, patience) in PARTS.items():
                    ours = run("pal", work, table, fill="easy", placement=placement, patience=patience, moves=False)
                    ratios[name].append(against(ours, packed))
                ratios["moves"].append(against(run("pal", work, table, fill="easy", cost=30.0), packed))
            rows.append([str(slow), f"{per_hour:g}", *map(cell, ratios.values())])
    markdown(["slow cards", "jobs/h", *PARTS, "`pal` with moves (30 s)"], rows)
    print(f"\n{CLUSTER.n_gpus} GPUs, {options.seeds} seeds")


if __name__ == "__main__":
    main()
