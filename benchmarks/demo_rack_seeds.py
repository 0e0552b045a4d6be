"""What `scripts/demo --racks` would show with other seeds: its jobs, racks and hidden speeds in the simulator.

python -m benchmarks.demo_rack_seeds [--seeds 12] [--load 0.7] [--mean 40]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from pal_slurm.model import App, ScoreTable
from pal_slurm.policy import compose
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.profiles import read_scores
from pal_slurm.sim.workload import Work, workload

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from demo_lib import racks, speeds
from demo_lib.workload import APPS, BASE, COMM, DemoJob, make

NODES, GPUS = 16, 4
CLUSTER = parse_cluster(f"{NODES}x{GPUS}/{racks.RACK_SIZE}")


def main() -> int:
    parser = argparse.ArgumentParser(description="What the demo with racks would show with other seeds.")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=72)
    parser.add_argument("--load", type=float, default=racks.LOAD)
    parser.add_argument("--mean", type=float, default=racks.MEAN_S)
    options = parser.parse_args()
    lease_s = max(1, round(options.mean / racks.LEASES))
    # Slurm alone is packed without a wait, and its --switches packed with one of five minutes for a rack.
    arms = {
        "packed": ("packed", "none", "fifo"), "switches": ("packed", "fixed(300,300)", "fifo"),
        "dally": ("dally", f"dally({lease_s},24,6,12)", "fifo"), "pal": ("pal", "", "fifo"),
    }  # fmt: skip
    print(f"{'seed':>4}" + "".join(f"{arm:>10}" for arm in arms) + "   average JCT, simulated, s")
    best, ratios = 0, []
    for seed in range(1, options.seeds + 1):
        jobs = make(options.jobs, NODES * GPUS, seed, options.load, options.mean, apart=True)
        truth = scores_of(speeds.make(NODES, GPUS, seed, slow_cards=True))
        jct = {arm: simulate(jobs, truth, *parts) for arm, parts in arms.items()}
        print(f"{seed:>4}" + "".join(f"{value:>10.1f}" for value in jct.values()), flush=True)
        best += jct["pal"] <= min(jct.values())
        ratios.append({arm: jct["pal"] / value for arm, value in jct.items()})
    means = {arm: sum(ratio[arm] for ratio in ratios) / len(ratios) for arm in arms}
    print("pal over each, mean: " + ", ".join(f"{arm} {means[arm]:.3f}" for arm in arms if arm != "pal"), end="; ")
    print(f"it is the lowest with {best} of {len(ratios)} seeds")
    return 0


def scores_of(hidden: speeds.Speeds, nodes: int = NODES) -> ScoreTable:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "scores.csv"
        rows = [
            f"{number},{int(node[1:]) - 1},{','.join(map(str, scores.values()))}"
            for number, (node, scores) in enumerate((n, s) for n, slots in hidden.items() for s in slots.values())
        ]
        path.write_text("\n".join(["gpu,node,class_a,class_b,class_c", *rows]) + "\n")
        return read_scores(path, nodes, GPUS)


def simulate(jobs: list[DemoJob], truth: ScoreTable, policy: str, patience: str, order: str) -> float:
    apps = {name: App(name, cls, {"gpu": BASE[name]}, (1.0, *COMM[name])) for name, cls in APPS.items()}
    works = [
        Work(j.number, j.at, j.gpus, j.steps, apps[j.app], 60.0 * j.limit_min, per_node=min(j.gpus, GPUS)) for j in jobs
    ]
    scheduler = InPlanner(policy, CLUSTER, truth, compose(policy, patience=patience, order=order))
    return Engine(CLUSTER, truth, workload(works), scheduler, ClusterRules()).run().figures()["avg_jct_s"]


if __name__ == "__main__":
    sys.exit(main())
