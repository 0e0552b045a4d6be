"""What no policy can beat on a trace of Gavel's: bounds from a fluid, in which jobs are divided as one likes.

    python -m benchmarks.fluid_bounds [TRACE:A-B ...]

For each trace, of the jobs at places A to B: the average time that they take when nobody ever waits or is stopped and
each has its best GPUs from the first second on (60 s for its start); and the most jobs an hour that the cluster can do
for ever, by the linear program that divides the pools among kinds of jobs so that none is left behind.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pal_slurm.policy.pools.claims import relative_rates
from pal_slurm.policy.pools.pricing import for_ever
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.traces import Options, read_trace
from pal_slurm.sim.workload import Workload

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gavel"
CLUSTER = "v100:36x1+p100:36x1+k80:36x1"
START_S = 60.0
TRACES = (
    "continuous_single_rate4.0_seed0:4000-4999",
    "continuous_single_rate5.6_seed0:4000-4999",
    "continuous_multi_rate2.6_seed0:2000-2999",
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Bounds by a fluid.")
    parser.add_argument("traces", nargs="*", default=TRACES)
    traces = parser.parse_args(argv).traces
    print(f"{'trace, jobs':44} {'comes, jobs/h':>14} {'at most, jobs/h':>16} {'nobody waits, h':>16}")
    for told in traces:
        name, _, places = told.partition(":")
        first, _, last = places.partition("-")
        options = Options(throughputs=DATA / "simulation_throughputs.json")
        load = read_trace(DATA / "traces" / f"{name}.tsv", "gavel", options)
        load = load.counting(range(int(first), int(last) + 1) if last else None)
        comes, most, least_h = bounds(load)
        print(f"{told:44} {comes:14.2f} {most:16.2f} {least_h:16.3f}")
    return 0


def bounds(load: Workload) -> tuple[float, float, float]:
    """Jobs an hour that come, and that can be done; hours that a job takes at least, on average."""
    works = [load.works[i] for i in load.tracked]
    cluster = parse_cluster(CLUSTER)
    gpus = np.bincount(cluster.gpu_model[cluster.gpu_exists], minlength=len(cluster.models)).astype(float)
    kinds: dict[tuple[float, ...], float] = defaultdict(float)
    for work in works:
        kinds[relative_rates(work.app, cluster.models)] += work.gpus * work.ideal_s()
    todo = np.array(list(kinds.values()))
    most = for_ever(np.array(list(kinds)), todo, gpus).value  # GPU seconds a second
    span_h = (works[-1].submit - works[0].submit) / 3600
    least_h = float(np.mean([work.ideal_s() + START_S for work in works])) / 3600
    return (len(works) / span_h if span_h else 0.0), len(works) * 3600 * most / float(todo.sum()), least_h


if __name__ == "__main__":
    sys.exit(main())
