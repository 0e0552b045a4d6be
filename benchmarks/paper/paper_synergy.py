"""Synergy-like loads: 256 GPUs, FIFO, all class A, seed 42; what a price on moves leaves of the gain. Prints Markdown.

Poisson arrivals, sizes as in philly.csv up to 16 GPUs, run times 60 * 10^U(1.5, 3) s (80 %) or 60 * 10^U(3, 4) s; jobs
2000 to 2999 count. "Kept": the gain of `pal` at 62 s a move over that of the artifact's PAL with free moves.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.paper.paper_worlds import LOCALITY, markdown, medians, need_data, raw_rows, run
from pal_slurm.model import App, ScoreTable, homogeneous
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.synthetic import PHILLY_SIZES
from pal_slurm.sim.workload import Work, Workload

NODES, ROUND_S, COST_S = 64, 300.0, 62.0
JOBS, TRACKED = 3200, range(2000, 3000)
CLUSTER = homogeneous(NODES, 4)


def jobs(per_hour: float, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(3600 / per_hour, JOBS))
    shares = np.array(list(PHILLY_SIZES.values()))
    gpus = rng.choice(list(PHILLY_SIZES), size=JOBS, p=shares / shares.sum())
    exponent = np.where(rng.random(JOBS) < 0.8, rng.uniform(1.5, 3, JOBS), rng.uniform(3, 4, JOBS))
    steps = 60 * 10**exponent
    app = App("synergy", "A", {"gpu": 1.0}, (1.0, 1.0, LOCALITY, LOCALITY))
    rows = zip(at.tolist(), gpus.tolist(), steps.tolist(), strict=True)
    return Workload(tuple(Work(i, t, g, s, app, 2 * s) for i, (t, g, s) in enumerate(rows)), TRACKED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--loads", default="8,10,12,14", help="jobs per hour")
    parser.add_argument("--medians", action="store_true", help="whole nodes' medians instead of the artifact's seed 42")
    options = parser.parse_args()
    need_data()
    table: ScoreTable = medians(0, NODES) if options.medians else raw_rows(42, NODES)
    rows = []
    for per_hour in map(float, options.loads.split(",")):
        change: dict[str, list[float]] = {"free": [], "paid": [], "ours": []}
        hours, moves = [], []
        for seed in range(options.seeds):
            work = jobs(per_hour, seed)

            def go(policy: str, cost: float, work: Workload = work) -> TraceOutcome:
                round_s = ROUND_S if policy.startswith("artifact/") else 0.0
                return run(policy, work, table, cost=cost, round_s=round_s, cluster=CLUSTER)

            packed = go("artifact/packed-sticky", COST_S)
            ran = {"free": go("artifact/pal", 0.0), "paid": go("artifact/pal", COST_S), "ours": go("pal", COST_S)}
            for name, outcome in ran.items():
                change[name].append(outcome.avg_jct_s / packed.avg_jct_s - 1)
            hours.append(packed.avg_jct_s / 3600)
            moves.append((ran["paid"].moves, ran["ours"].moves))
        mean = {name: float(np.mean(values)) for name, values in change.items()}
        kept = {name: mean[name] / mean["free"] for name in ("paid", "ours")}
        theirs, ours = np.mean(moves, axis=0)
        rows.append(
            [f"{per_hour:g}", f"{np.mean(hours):.1f}"]
            + [f"{100 * mean[name]:+.1f} %" for name in ("free", "paid", "ours")]
            + [f"{100 * kept['paid']:.0f} %", f"{100 * kept['ours']:.0f} %", f"{theirs:,.0f}", f"{ours:,.0f}"]
        )
    head = [
        "jobs/h",
        "packed, h",
        "PAL, free moves",
        "PAL, 62 s",
        "pal, 62 s",
        "PAL keeps",
        "pal keeps",
        "moves PAL",
        "moves pal",
    ]
    markdown(head, rows)


if __name__ == "__main__":
    main()
