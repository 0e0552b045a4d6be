"""The figures of several GPU models on sequences that nobody has looked at: other seeds of Gavel's generator.

    python -m benchmarks.other_seeds [--seeds 1,2] [--rates 4.0,5.6] [--several] [--jobs 4000-4999] [--only NAME,...]

36 V100, 36 P100, 36 K80, 60 s at each start, FIFO as Slurm has it; `pal` with all jobs movable, a quarter, none.
One line for each seed, rate and case: average JCT, what it is over that of nobody who waits, 99 % slowdown, starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pal_slurm.model import neutral_scores
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.traces import Options, read_trace
from pal_slurm.sim.traces.gavel_drawn import Draws
from pal_slurm.sim.workload import Workload

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gavel"
CLUSTER = parse_cluster("v100:36x1+p100:36x1+k80:36x1")
RULES = ClusterRules(restart_cost_s=60.0, first_start_cost=True)
CASES = {"all": (1.0, True), "quarter": (0.25, True), "none": (0.0, False)}  # movable, whether anybody is


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Other seeds.")
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--rates", default="4.0,5.6")
    parser.add_argument("--several", action="store_true", help="jobs of 1 to 8 GPUs")
    parser.add_argument("--jobs", default="4000-4999")
    parser.add_argument("--only", default=",".join(CASES))
    asked = parser.parse_args(argv)
    print("seed  jobs/h  movable   average JCT, h   over nobody waits   99 % slowdown   starts a job")
    for seed in map(int, asked.seeds.split(",")):
        for rate in map(float, asked.rates.split(",")):
            load = drawn(seed, rate, asked.jobs, several=asked.several)
            for case in asked.only.split(","):
                tell(seed, rate, case, load)
    return 0


def drawn(seed: int, rate: float, jobs: str, *, several: bool) -> Workload:
    """As Gavel's generator draws it; a file of seed 0 tells the applications."""
    name = "continuous_multi_rate2.6_seed0" if several else "continuous_single_rate5.6_seed0"
    options = Options(limit_factor=2.0, throughputs=DATA / "simulation_throughputs.json")
    known = read_trace(DATA / "traces" / f"{name}.tsv", "gavel", options)
    draws = Draws(seed, 3600 / rate, known.works)
    first, _, last = jobs.partition("-")
    return replace(known, works=draws(1), tracked=range(int(first), int(last) + 1), beyond=lambda turn: draws(turn + 1))


def tell(seed: int, rate: float, case: str, load: Workload) -> None:
    share, moves = CASES[case]
    setting = Setting(CLUSTER, 1.0, RULES, moves)
    known = neutral_scores(CLUSTER)
    scheduler = scheduler_for(PolicySpec(policy="pal"), setting, known, seed)
    done = Engine(CLUSTER, known, load.movable(share, seed), scheduler, RULES).run()
    figures = done.figures()
    over = done.avg_jct_s / float((done.ideal_s + RULES.restart_cost_s).mean())
    print(
        f"{seed:4}  {rate:6.1f}  {case:8} {done.avg_jct_s / 3600:16.2f} {over:19.3f} "
        f"{figures['p99_slowdown']:15.2f} {done.starts_per_job:14.2f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
