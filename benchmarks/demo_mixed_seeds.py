"""What `scripts/demo --mixed` would show with other seeds: its jobs, models and hidden speeds in the simulator.

    python -m benchmarks.demo_mixed_seeds [--seeds 12] [--load 1.2] [--mean 45]

Slurm alone is first come, first fit over its nodes in their order, with its backfill. What a GPU bills is left out: all
jobs may have the newest model. Average JCT of each over that of Slurm alone.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from pal_slurm.config.moves import MovesSection
from pal_slurm.model import App, Job, Placement, ScoreTable
from pal_slurm.policy import Floor, compose
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.scores import alike, binned
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.looks import Looks
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.workload import Work, workload

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from demo_lib import mixed, speeds
from demo_lib.workload import APPS, DemoJob

from benchmarks.demo_rack_seeds import GPUS, scores_of

COMM = (1.0, 1.0, 1.1, 1.3)  # what palwork charges for a node, a rack, the cluster
LAUNCH_S, RESTART_S = 0.6, 2.5  # as the twin of the demo measures them
CYCLE_S = 2.0
KEYS = MovesSection(  # as scripts/minicluster has them with the actuator `move`
    first_s=5.0, last_s=0.0, per_job=20, per_user=10_000, per_cluster=10_000, share=0.2, cost_s=4.0, large_cost_s=4.0
)
ARMS = ("stock", "packed", "pal", "moves")
CLUSTER = parse_cluster("+".join(f"{model}:{nodes}x{GPUS}" for model, nodes in mixed.models(mixed.NODES).items()))


class FirstFit:
    """As Slurm itself places a job."""

    def place(self, job: Job, app: App, floor: Floor) -> Placement | None:
        return first_fit(job, floor)


def main() -> int:
    parser = argparse.ArgumentParser(description="What the demo with several models would show with other seeds.")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=54)
    parser.add_argument("--load", type=float, default=1.2)
    parser.add_argument("--mean", type=float, default=45.0)
    options = parser.parse_args()
    print(f"{'seed':>4} {'stock, s':>9}" + "".join(f"{arm:>8}" for arm in ARMS[1:]) + f"{'moved':>7}   average JCT")
    ratios: list[list[float]] = []
    for seed in range(1, options.seeds + 1):
        drawn = (options.jobs, mixed.NODES * GPUS, seed, options.load, options.mean, mixed.NODES)
        truth = scores_of(speeds.make(mixed.NODES, GPUS, seed, slow_cards=True), mixed.NODES)
        done = {arm: simulate(arm, mixed.make(*drawn), truth) for arm in ARMS}
        stock = done["stock"].avg_jct_s
        ratios.append([done[arm].avg_jct_s / stock for arm in ARMS[1:]])
        told = "".join(f"{ratio:>8.3f}" for ratio in ratios[-1])
        print(f"{seed:>4} {stock:>9.1f}{told}{done['moves'].moves:>7}", flush=True)
    means = [sum(column) / len(ratios) for column in zip(*ratios, strict=True)]
    print(f"mean {'':>9}" + "".join(f"{mean:>8.3f}" for mean in means))
    for at, (arm, most) in enumerate((("pal", mixed.WANTED["pal"]), ("moves", mixed.WANTED["moves"])), 1):
        print(f"{arm}: at most {most} with {sum(row[at] <= most for row in ratios)} of {len(ratios)} seeds")
    return 0


def simulate(arm: str, jobs: list[DemoJob], truth: ScoreTable) -> TraceOutcome:
    apps = {name: App(name, cls, dict(mixed.BASES[name]), COMM) for name, cls in APPS.items()}
    works = [
        Work(j.number, j.at, j.gpus, j.steps, apps[j.app], 60.0 * j.limit_min, per_node=min(j.gpus, GPUS)) for j in jobs
    ]
    composition = compose("packed" if arm == "stock" else "pal" if arm == "moves" else arm, order="fifo")
    if arm == "stock":
        composition = replace(composition, placement=FirstFit())
    looks = Looks(KEYS.cost_s, KEYS, CYCLE_S) if arm == "moves" else None
    ties = binned(truth.classes, truth.score, truth.known, alike)  # as pald sees its scores
    rules = ClusterRules(launch_s=LAUNCH_S, restart_cost_s=RESTART_S if arm == "moves" else 0.0)
    return Engine(CLUSTER, truth, workload(works), InPlanner(arm, CLUSTER, ties, composition, looks=looks), rules).run()


if __name__ == "__main__":
    sys.exit(main())
