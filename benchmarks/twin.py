"""The simulator against a real Slurm: the same 100 jobs on a mini-cluster and in the simulator. Exit 1 beyond 5 %.

    python benchmarks/twin.py [--slurm 26.05] [--jobs 100] [--seed 2]

The demo's workload and hidden speeds, placed by pald (`pal`) on 16 x 4 fake GPUs; jobs take half a minute. What Slurm
and pald need to start a job and to clean up after it is measured on the run itself: the least that a job took beyond
its own run time (the 10th percentile, so of a job that did not wait). The simulator charges it to every start.
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

import demo_lib.cluster
import demo_lib.run
import demo_lib.speeds
import demo_lib.workload

from pal_slurm.model import App
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.gain import table_for
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.workload import Work, workload

NODES, GPUS, RACK = 16, 4, 8
COMM = (1.0, 1.0, 1.1, 1.3)  # what palwork charges for a node, a rack, the cluster
NEAR = 0.05


def simulated(jobs: Sequence[Any], speeds: Any, launch_s: float, policy: str) -> TraceOutcome:
    """The same jobs in the simulator."""
    cluster = parse_cluster(f"{NODES}x{GPUS}/{RACK}")
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
    setting = Setting(cluster, 1.0, ClusterRules(launch_s=launch_s), requeue=False)
    spec = PolicySpec(policy=policy, order="fifo", fill="easy")
    return Engine(cluster, table, workload(works), scheduler_for(spec, setting, table, 0), setting.rules).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slurm", default="26.05", choices=["native", "24.11", "26.05"])
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--policy", default="pal", choices=["pal", "packed"])
    parser.add_argument("--json", type=Path, help="keep what was measured")
    options = parser.parse_args()
    speeds = demo_lib.speeds.make(NODES, GPUS, options.seed, slow_cards=True)
    jobs = demo_lib.workload.make(options.jobs, NODES * GPUS, options.seed, load=1.4, mean_s=36.0)
    with tempfile.TemporaryDirectory(prefix="pal-twin-") as directory:
        state = Path(directory)
        state.chmod(0o755)
        demo_lib.speeds.write(speeds, state / "speeds.json", state / "scores.csv")
        place = demo_lib.cluster.Miniclusters(options.slurm, NODES, GPUS, state / "speeds.json")
        with place.arm(options.policy, state / options.policy) as stage:
            ran = demo_lib.run.run(jobs, stage, state / "out", lambda done, running: None)
    begun = min(r.submitted - r.job.at for r in ran)
    real = np.array([r.jct_s for r in ran])
    beyond = np.array([r.jct_s - r.ran_s for r in ran])
    launch_s = float(np.percentile(beyond, 10))
    twin = simulated(jobs, speeds, launch_s, options.policy)
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
    sys.exit(int(abs(off) > NEAR))


if __name__ == "__main__":
    main()
