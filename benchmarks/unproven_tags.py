"""What it costs honest users that a tag counts against others only once their jobs have shown its class.

    python -m benchmarks.unproven_tags [--seeds 8] [--load 0.95]

Synthetic jobs on 16 nodes x 4 GPUs, the policy `pal` without moves. A share of the jobs are their users' first of that
name. One line for each share: average JCT over that with all tags proven, and how much longer those first jobs run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pal_slurm.model import App, FloatArray
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.traces import Options
from pal_slurm.sim.workload import Work
from pal_slurm.sim.worlds import Sources, World, Worlds

CLUSTER = parse_cluster("16x4")
SHARES = (0.02, 0.1, 0.3, 1.0)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What it costs honest users that tags are proven first.")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--load", type=float, default=0.95)
    asked = parser.parse_args(argv)
    worlds = Worlds(Sources("synthetic:jobs=800", options=Options(limit_factor=2.0), share=asked.load), CLUSTER)
    drawn = [worlds(seed) for seed in range(asked.seeds)]
    proven = [run(world, seed, ()) for seed, world in enumerate(drawn)]
    print("first jobs   average JCT, all proven = 1   run time of the first jobs, all proven = 1   the worst tenth")
    for share in SHARES:
        jct, longer = [], list[float]()
        for seed, world in enumerate(drawn):
            rng = np.random.default_rng(seed)
            first = {w.id for w in world.load.works if w.app.cls != "C" and rng.random() < share}
            done = run(world, seed, first)
            jct.append(done.avg_jct_s / proven[seed].avg_jct_s)
            mine = np.isin(done.job_ids, sorted(first))
            longer += (ran(done)[mine] / ran(proven[seed])[mine]).tolist()
        worst = float(np.percentile(longer, 90))
        print(f"{share:10.0%}   {np.mean(jct):.3f} +-{np.std(jct) / len(jct) ** 0.5:.3f}"
              f"{np.mean(longer):40.3f}{worst:18.3f}", flush=True)  # fmt: skip
    return 0


def ran(done: TraceOutcome) -> FloatArray:
    return done.end_s - done.start_s


def run(world: World, seed: int, first: Sequence[int] | set[int]) -> TraceOutcome:
    doubted: dict[int, App] = {}

    def tagged(works: tuple[Work, ...], turn: int) -> tuple[Work, ...]:
        return tuple(
            replace(w, app=doubted.setdefault(id(w.app), replace(w.app, shown="C"))) if w.id in first else w
            for w in works
        )

    rules = ClusterRules()
    scheduler = scheduler_for(PolicySpec(policy="pal"), Setting(CLUSTER, 1.0, rules, False), world.known, seed)
    return Engine(CLUSTER, world.truth, world.load.changed(tagged), scheduler, rules).run()


if __name__ == "__main__":
    sys.exit(main())
