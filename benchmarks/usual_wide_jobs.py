"""What whole nodes that small jobs spare for usual wide jobs cost the small ones, and bring the wide ones.

    python -m benchmarks.usual_wide_jobs [--draws 12]

Simulated, 4 nodes x 4 GPUs, scores from 0.9 to 1.5: jobs of one GPU and 20 s, and now and then one that needs four
GPUs of one node for a second. One line per load: the mean run time and wait of the small jobs and the mean wait of the
wide ones, for `packed`, for `pal` without the rule and for `pal`.
"""

from __future__ import annotations

import argparse
import random
from typing import NamedTuple

import numpy as np

from pal_slurm.model import App, homogeneous
from pal_slurm.policy import spared
from pal_slurm.scores import binned
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.workload import Work, Workload, workload

CLUSTER = homogeneous(4, 4)
SMALL, WIDE = (App(name, "A", {"gpu": 1.0}) for name in ("small", "wide"))
SPREAD = (0.9, 0.95, 1.0, 1.0, 1.1, 1.5)


class Load(NamedTuple):
    at_once: int  # small jobs, in the mean
    every_s: float  # a wide job comes, in the mean
    together: bool  # the small jobs come so many at once, not one by one
    wide: int = 30

    def drawn(self, draw: random.Random) -> Workload:
        small = [i // self.at_once * 20.0 + (0 if self.together else draw.uniform(0, 20)) for i in range(700)]
        wide = [60.0 + self.every_s * (i + draw.random()) for i in range(self.wide)]
        jobs = sorted([(at, 1) for at in small] + [(at, 4) for at in wide])
        return workload(
            Work(i, at, 1, 20.0, SMALL, 600.0, "alice")
            if gpus == 1
            else Work(i, at, 4, 1.0, WIDE, 60.0, "bob", per_node=4)
            for i, (at, gpus) in enumerate(jobs)
        )


LOADS = {
    "seven at once, a wide job each minute": Load(7, 60.0, False),
    "the same, seven together": Load(7, 60.0, True),
    "seven at once, a wide job each 20 s": Load(7, 20.0, False, 90),
    "nine at once, a wide job each minute": Load(9, 60.0, False),
    "seven at once, one wide job": Load(7, 60.0, False, 1),
}


def waits(load: Load, policy: str, seed: int, most: float = spared.MOST) -> tuple[float, float]:
    """Mean time in the queue and on GPUs of the small jobs, mean wait of the wide ones. `most` 0: without the rule."""
    draw = random.Random(seed)
    table = binned(("A",), np.array([[[draw.choice(SPREAD) for _ in range(4)] for _ in range(4)]]))
    work, rules, usual = load.drawn(draw), ClusterRules(0.0, 0.0), spared.MOST
    scheduler = scheduler_for(PolicySpec(policy=policy, fill="easy"), Setting(CLUSTER, 1.7, rules, False), table, 0)
    spared.MOST = most
    try:
        found = Engine(CLUSTER, table, work, scheduler, rules).run()
    finally:
        spared.MOST = usual
    is_wide = np.array([one.gpus > 1 for one in work.works])
    return float(found.jct_s[~is_wide].mean()), float((found.start_s - found.submit_s)[is_wide].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="What sparing whole nodes for usual wide jobs costs and brings.")
    parser.add_argument("--draws", type=int, default=12)
    draws = range(parser.parse_args().draws)
    for name, load in LOADS.items():
        print(name)
        for told, policy, most in (("packed", "packed", 0.0), ("without", "pal", 0.0), ("pal", "pal", spared.MOST)):
            small, wide = np.mean([waits(load, policy, seed, most) for seed in draws], axis=0)
            print(f"  {told:<8} small jobs {small:5.2f} s, wide jobs wait {wide:4.2f} s", flush=True)


if __name__ == "__main__":
    main()
