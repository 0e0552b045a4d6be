"""Whether knowing models and knowing single GPUs add up: one trace, GPUs that differ within each model too.

    python -m benchmarks.both_gains [--jobs 400-699] [--seed 0] [--several]

Gavel's 5.6 jobs an hour on 36 V100, 36 P100 and 36 K80; the spread inside each model is drawn from Longhorn's
measured run times (`../shared/data/pal`): of ResNet-50 for all, or with --several, where jobs have 1 to 8 GPUs (2.6
an hour), of ResNet-50, BERT and PageRank for three classes of applications. 60 s at each start, in Slurm's order
(FIFO). `packed`; `pal` that knows models only; models and each GPU; and where all models are alike and nine tenths of
the GPUs are needed, `pal` that knows nothing, and each GPU. The last line: the gain of each, and of both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pal_slurm.model import ScoreTable, neutral_scores
from pal_slurm.scores import binned
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.loads import at_load
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.profiles import draw_nodes, read_runs
from pal_slurm.sim.traces import Options, read_trace
from pal_slurm.sim.workload import Workload

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CLUSTER = parse_cluster("v100:36x1+p100:36x1+k80:36x1")
LOAD = 0.9
CLASSES = {"A": "resnet", "B": "bert", "C": "pagerank"}
OF_FAMILY = {"Transformer": "B", "LM": "B", "Recommendation": "C", "A3C": "C"}  # the others: images, A
RULES = ClusterRules(restart_cost_s=60.0, first_start_cost=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Two gains.")
    parser.add_argument("--jobs", default="400-699")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--several", action="store_true", help="jobs of 1 to 8 GPUs, in three classes")
    asked = parser.parse_args(argv)
    first, _, last = asked.jobs.partition("-")
    options = Options(limit_factor=2.0, throughputs=DATA / "gavel" / "simulation_throughputs.json")
    trace = "continuous_multi_rate2.6_seed0" if asked.several else "continuous_single_rate5.6_seed0"
    load = read_trace(DATA / "gavel" / "traces" / f"{trace}.tsv", "gavel", options)
    load = load.counting(range(int(first), int(last) + 1))
    kinds = dict(list(CLASSES.items())[: 3 if asked.several else 1])
    runs = [read_runs(DATA / "pal" / "longhorn" / f"{name}-longhorn-agg.csv") for name in kinds.values()]
    truth = binned(tuple(kinds), draw_nodes(runs, CLUSTER.n_nodes, CLUSTER.width, asked.seed))
    blind = neutral_scores(CLUSTER, tuple(kinds))
    if asked.several:
        load = in_classes(load)
    print(f"{'':24} {'average JCT, h':>14} {'starts a job':>13}")
    told = {
        name: jct_h(name, load, policy, truth, known)
        for name, policy, known in (
            ("packed", PolicySpec(policy="packed"), blind),
            ("pal, models", PolicySpec(policy="pal"), blind),
            ("pal, models and GPUs", PolicySpec(policy="pal"), truth),
        )
    }
    alone = {
        name: jct_h(name, on_median(load), PolicySpec(policy="pal"), truth, known)
        for name, known in (("one model", blind), ("one model, GPUs", truth))
    }
    models = told["pal, models"] / told["packed"]
    gpus = alone["one model, GPUs"] / alone["one model"]
    both = told["pal, models and GPUs"] / told["packed"]
    print(f"models {models - 1:+.1%}, GPUs {gpus - 1:+.1%}, both {both - 1:+.1%}: {both / models / gpus:.3f} of both")
    return 0


def in_classes(load: Workload) -> Workload:
    """By the application's family."""
    apps = {id(work.app): work.app for work in load.works}
    of = {key: replace(app, cls=OF_FAMILY.get(app.name.partition(" ")[0], "A")) for key, app in apps.items()}
    return replace(load, works=tuple(replace(work, app=of[id(work.app)]) for work in load.works))


def on_median(load: Workload) -> Workload:
    """The same work where all models are alike, and come as fast as needs most of the GPUs: only single GPUs differ."""
    works = []
    for work in load.works:
        base = min(work.app.base.values())
        works.append(replace(work, app=replace(work.app, base=dict.fromkeys(CLUSTER.models, base))))
    return at_load(replace(load, works=tuple(works)), LOAD, CLUSTER.n_gpus)


def jct_h(name: str, load: Workload, spec: PolicySpec, truth: ScoreTable, known: ScoreTable) -> float:
    scheduler = scheduler_for(spec, Setting(CLUSTER, 1.0, RULES, True), known, 0)
    done = Engine(CLUSTER, truth, load, scheduler, RULES).run()
    print(f"{name:24} {done.avg_jct_s / 3600:14.2f} {done.starts_per_job:13.2f}", flush=True)
    return done.avg_jct_s / 3600


if __name__ == "__main__":
    sys.exit(main())
