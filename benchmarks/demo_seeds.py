"""What the demo would show with other seeds: its workload and hidden speeds in the simulator.

    python -m benchmarks.demo_seeds [--seeds 12] [--load 1.4]
    python -m benchmarks.demo_seeds --moves [--nodes 8] [--jobs 78] [--load 1.0] [--mean 24] [--mixture demo]

The demo's default seed is a good one. This says how good, and what to expect of any other. --moves: `pal` without and
with moves, as pald makes them, on the workload of `scripts/demo --moves`, with what a start and a restart cost there;
`--mixture demo`: on that of `scripts/demo`, 4.5 jobs a node of a minute each at load 0.9.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "benchmarks")]

from demo_lib import moving, speeds, workload  # noqa: E402

from benchmarks import twin  # noqa: E402

NODES, GPUS = 16, 4
LAUNCH_S, RESTART_S = 0.6, 2.5  # as measured: a start; what a move's dead time has beyond it, save and load in it


def main() -> int:
    parser = argparse.ArgumentParser(description="What the demo would show with other seeds.")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--moves", action="store_true")
    parser.add_argument("--nodes", type=int, default=moving.NODES, help="with --moves")
    parser.add_argument("--mixture", choices=("sweeps", "demo"), default="sweeps", help="with --moves")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--load", type=float)
    parser.add_argument("--mean", type=float)
    parser.add_argument("--spread", choices=("cards", "measured"), default="cards")
    options = parser.parse_args()
    usual = (72, 1.4, 36.0)
    if options.moves:
        sweeps = options.mixture == "sweeps"
        per_node, *rest = (moving.JOBS_PER_NODE, moving.LOAD, moving.MEAN_S) if sweeps else (4.5, 0.9, 60.0)
        usual = (round(per_node * options.nodes), *rest)
    for key, value in zip(("jobs", "load", "mean"), usual, strict=True):
        if getattr(options, key) is None:
            setattr(options, key, value)
    if options.moves:
        return with_moves(options)
    print(f"{'seed':>4} {'avg JCT':>9} {'makespan':>9}   pal against packed, simulated")
    rows = []
    for seed in range(1, options.seeds + 1):
        jobs = workload.make(options.jobs, NODES * GPUS, seed, options.load, options.mean)
        hidden = speeds.make(NODES, GPUS, seed, options.spread == "cards")
        packed, pal = simulate(jobs, hidden)
        rows.append((pal["avg_jct_s"] / packed["avg_jct_s"] - 1, pal["makespan_s"] / packed["makespan_s"] - 1))
        print(f"{seed:>4} {rows[-1][0]:>+9.1%} {rows[-1][1]:>+9.1%}", flush=True)
    avg, makespan = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    both = sum(a < 0 and m < 0 for a, m in rows)
    print(f"mean {avg:>+9.1%} {makespan:>+9.1%}   both lower with {both} of {len(rows)} seeds")
    return 0


def with_moves(options: argparse.Namespace) -> int:
    print(f"{'seed':>4} {'avg JCT':>8} {'makespan':>8} {'moves':>5}   with moves against without, simulated")
    ratios = []
    make = moving.make if options.mixture == "sweeps" else partial(workload.make, saves=True)
    for seed in range(1, options.seeds + 1):
        jobs = make(options.jobs, options.nodes * GPUS, seed, options.load, options.mean)
        hidden = speeds.make(options.nodes, GPUS, seed, options.spread == "cards")
        still = twin.simulated(jobs, hidden, LAUNCH_S, "pal")
        moved = twin.simulated(jobs, hidden, LAUNCH_S, "pal", RESTART_S)
        ratios.append((moved.avg_jct_s / still.avg_jct_s, moved.makespan_s / still.makespan_s))
        print(f"{seed:>4} {ratios[-1][0]:>8.3f} {ratios[-1][1]:>8.3f} {moved.moves:>5}", flush=True)
    (avg, makespan), (sd, _) = np.mean(ratios, axis=0), np.std(ratios, axis=0, ddof=1)
    print(f"mean {avg:>8.3f} {makespan:>8.3f}   JCT \u00b1{sd:.3f} (standard deviation of the seeds)")
    return 0


def simulate(jobs: list[workload.DemoJob], hidden: speeds.Speeds) -> tuple[dict[str, float], dict[str, float]]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        with (home / "jobs.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["job_id", "submit_s", "gpus", "iterations", "s_per_iteration", "class"])
            out.writerows([j.number, round(j.at, 3), j.gpus, j.steps, workload.BASE[j.app], j.cls] for j in jobs)
        with (home / "scores.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["gpu", "node", "class_a", "class_b", "class_c"])
            number = 0
            for node, slots in hidden.items():
                for scores in slots.values():
                    out.writerow([number, int(node[1:]) - 1, *scores.values()])
                    number += 1
        subprocess.run(
            [
                Path(sys.executable).parent / "palctl", "simulate", home / "jobs.csv", "--format", "jobs",
                "--cluster", f"{NODES}x{GPUS}", "--scores", home / "scores.csv", "--policy", "packed",
                "--policy", "pal", "--no-moves", "--locality", "1.0", "--limit-factor", "2.5",
                "--json", home / "out.json",
            ],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        packed, pal = json.loads((home / "out.json").read_text())
        return packed, pal


if __name__ == "__main__":
    sys.exit(main())
