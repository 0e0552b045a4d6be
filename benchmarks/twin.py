"""The simulator against a real Slurm: the same 100 jobs on a mini-cluster and in the simulator. Exit 1 beyond 5 %.

    python benchmarks/twin.py [--slurm 26.05] [--jobs 100] [--seed 2] [--moves]

The demo's workload and hidden speeds, placed by pald (`pal`) on 16 x 4 fake GPUs; jobs take half a minute. What Slurm
and pald need to start a job and to clean up after it is measured on the run itself: the least that a job took beyond
its own run time (the 10th percentile, so of a job that did not wait). The simulator charges it to every start.

With --moves the jobs last a minute and save, a quarter of the nodes is slow, and pald moves them; what a
move costs beyond a start is measured too, from a job's last step before to its first after. Exit 1 beyond 2 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import demo_lib.__main__
import demo_lib.cluster
import demo_lib.moving
import demo_lib.run
import demo_lib.speeds
import demo_lib.workload

from pal_slurm.config.moves import MovesSection
from pal_slurm.model import App
from pal_slurm.policy import compose
from pal_slurm.scores import alike, binned
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine, Scheduler
from pal_slurm.sim.gain import table_for
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.looks import Looks
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.workload import Work, workload

NODES, GPUS, RACK = 16, 4, 8
COMM = (1.0, 1.0, 1.1, 1.3)  # what palwork charges for a node, a rack, the cluster
NEAR, NEAR_MOVES = 0.05, 0.02
CYCLE_S = 2.0
AS_IN_DEMO = MovesSection(  # as scripts/minicluster has them with the actuator `move`
    first_s=5.0, last_s=0.0, per_job=20, per_user=10_000, per_cluster=10_000, share=0.2, cost_s=4.0, large_cost_s=4.0
)


def simulated(
    jobs: Sequence[Any], speeds: Any, launch_s: float, policy: str, restart_s: float | None = None
) -> TraceOutcome:
    """The same jobs in the simulator. `restart_s`: they are moved, which costs so much beyond a start."""
    cluster = parse_cluster(f"{len(speeds)}x{GPUS}/{RACK}")
    placed = {(node, int(slot[1:])): dict(row) for node, slots in speeds.items() for slot, row in slots.items()}
    table = table_for(cluster, placed)
    apps = {
        name: App(name, cls, {"gpu": demo_lib.workload.BASE[name]}, COMM)
        for name, cls in demo_lib.workload.APPS.items()
    }
    works = [
        Work(j.number, j.at, j.gpus, j.steps, apps[j.app], 60.0 * -(-j.ideal_s * 2.5 // 60), per_node=min(j.gpus, GPUS))
        for j in jobs
    ]
    rules = ClusterRules(launch_s=launch_s, restart_cost_s=restart_s or 0.0)
    scheduler: Scheduler
    if restart_s is None:
        spec = PolicySpec(policy=policy, order="fifo", fill="easy")
        scheduler = scheduler_for(spec, Setting(cluster, 1.0, rules, requeue=False), table, 0)
    else:
        ties = binned(table.classes, table.score, table.known, alike)  # as pald sees its scores
        looks = Looks(AS_IN_DEMO.cost_s, AS_IN_DEMO, CYCLE_S)
        scheduler = InPlanner("moves", cluster, ties, compose("pal", order="fifo"), looks=looks)
    return Engine(cluster, table, workload(works), scheduler, rules).run()


def restart_of(ran: Sequence[Any], launch_s: float) -> float:
    """What a move cost beyond a start: the mean."""
    moved = [r.worked for r in ran if r.worked is not None and r.worked.runs > 1]
    moves = sum(w.runs - 1 for w in moved)
    dead = sum(w.dead_s for w in moved) / moves if moves else demo_lib.workload.SAVE_S + demo_lib.workload.LOAD_S
    print(f"{moves} moves, dead {dead:.2f} s each; {sum(w.lost for w in moved)} steps lost")
    return float(max(0.0, dead - launch_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slurm", default="26.05", choices=["native", "24.11", "26.05"])
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--policy", default="pal", choices=["pal", "packed"])
    parser.add_argument("--moves", action="store_true", help="running jobs are moved")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--json", type=Path, help="keep what was measured")
    options = parser.parse_args()
    worn = demo_lib.__main__.WORN_SHARE if options.moves else 0.0
    speeds = demo_lib.speeds.make(options.nodes, GPUS, options.seed, slow_cards=not options.moves, worn=worn)
    load, mean_s = (0.9, 60.0) if options.moves else (1.4, 36.0)
    drawn = (options.jobs, options.nodes * GPUS, options.seed, load, mean_s)
    jobs = demo_lib.workload.make(*drawn, saves=options.moves)
    if options.moves:
        options.policy = demo_lib.moving.MOVES
    with tempfile.TemporaryDirectory(prefix="pal-twin-") as directory:
        state = Path(directory)
        state.chmod(0o755)
        demo_lib.speeds.write(speeds, state / "speeds.json", state / "scores.csv")
        place = demo_lib.cluster.Miniclusters(
            options.slurm, options.nodes, GPUS, state / "speeds.json", arms=demo_lib.moving.ARMS
        )
        with place.arm(options.policy, state / options.policy) as stage:
            ran = demo_lib.run.run(jobs, stage, state / "out", lambda done, running: None)
    begun = min(r.submitted - r.job.at for r in ran)
    real = np.array([r.jct_s for r in ran])
    beyond = np.array([r.jct_s - r.ran_s for r in ran])
    launch_s = float(np.percentile(beyond, 10))
    restart_s = restart_of(ran, launch_s) if options.moves else None
    twin = simulated(jobs, speeds, launch_s, options.policy, restart_s)
    makespan = max(r.ended for r in ran) - begun - jobs[0].at
    if options.json:
        rows = [
            {"job": r.job.number, "at": r.submitted - begun, "jct": r.jct_s, "ran": r.ran_s, "twin_jct": float(j)}
            for r, j in zip(ran, twin.jct_s, strict=True)
        ]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    off = twin.avg_jct_s / real.mean() - 1
    print(f"launch and clean-up: {launch_s:.2f} s a job")
    print(f"average JCT: real {real.mean():.2f} s, simulated {twin.avg_jct_s:.2f} s, {100 * off:+.1f} %")
    print(f"makespan: real {makespan:.1f} s, simulated {twin.makespan_s:.1f} s")
    sys.exit(int(abs(off) > (NEAR_MOVES if options.moves else NEAR)))


if __name__ == "__main__":
    main()
