"""What the paper's experiments share. In: the public data beside the project. Out: loads, scores, runs, tables.

Data: ../shared/data from the project's root, or $PAL_DATA. Where they come from: docs/results.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.published.policies import PublishedSpec, scheduler_for
from pal_slurm.model import Cluster, ScoreTable, homogeneous
from pal_slurm.scores import binned
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import Setting
from pal_slurm.sim.profiles import draw_nodes, draw_rows, read_runs, run_times
from pal_slurm.sim.traces import Options, read_trace
from pal_slurm.sim.workload import Workload

DATA = Path(os.environ.get("PAL_DATA", Path(__file__).parents[2] / "../shared/data"))
CLASSES = ("A", "B", "C", "D")
# the artifact's profiles: A ResNet-50, B and C both BERT, D PageRank
FILES = ("resnet", "bert", "bert", "pagerank")
CLUSTER = homogeneous(16, 4)
TRACES = (1, 2, 3, 4)
LIMIT_FACTOR = 2.0  # time limit over ideal run time, for fill `easy`
ROUND_S = 360.0
LOCALITY = 1.7


def need_data() -> None:
    if not DATA.exists():
        sys.exit(f"The public data are not at {DATA}; set PAL_DATA.")


@cache
def load(workload: int, locality: float = LOCALITY) -> Workload:
    options = Options(locality=locality, limit_factor=LIMIT_FACTOR)
    return read_trace(DATA / f"pal/traces/artifact_jobs_w{workload}.csv", "jobs", options).counting(range(160))


def path_of(name: str) -> Path:
    return DATA / f"pal/longhorn/{name}-longhorn-agg.csv"


@cache
def raw_rows(seed: int, nodes: int = 16) -> ScoreTable:
    """One run per GPU and class, as the artifact draws it; 42 is the published seed."""
    return binned(CLASSES, draw_rows([run_times(path_of(name)) for name in FILES], nodes, 4, seed))


@cache
def medians(seed: int, nodes: int = 16) -> ScoreTable:
    """Whole measured nodes, medians per GPU, stalls told from lasting slowness."""
    return binned(CLASSES, draw_nodes([read_runs(path_of(name)) for name in FILES], nodes, 4, seed))


def without_worst(table: ScoreTable) -> ScoreTable:
    """The slowest class-A GPU made a median one."""
    score = table.score.copy()
    score[0].ravel()[score[0].argmax()] = 1.0
    return binned(table.classes, score)


def alike(nodes: int = 16) -> ScoreTable:
    """No variability at all."""
    return binned(CLASSES, np.ones((4, nodes, 4)))


def run(
    policy: str,
    work: Workload,
    truth: ScoreTable,
    *,
    known: ScoreTable | None = None,
    fill: str = "none",
    order: str = "fifo",
    placement: str = "",
    patience: str = "",
    cost: float = 0.0,
    round_s: float | None = None,
    locality: float = LOCALITY,
    cluster: Cluster = CLUSTER,
    moves: bool = True,
    moving: Literal["", "none", "value"] = "",
    seed: int = 0,
) -> TraceOutcome:
    """One policy on one world. Published policies act in rounds, ours at once, unless told otherwise."""
    if round_s is None:
        round_s = ROUND_S if policy.startswith("artifact/") else 0.0
    setting = Setting(cluster, locality, ClusterRules(round_s, cost), moves)
    spec = PublishedSpec(policy=policy, order=order, placement=placement, patience=patience, fill=fill, moving=moving)
    scheduler = scheduler_for(spec, setting, truth if known is None else known, seed)
    return Engine(cluster, truth, work, scheduler, setting.rules).run()


def geomean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def spread_of(ratios: NDArray[np.float64]) -> str:
    """Geometric mean and the half width of its 95 % interval (normal, of the logarithms)."""
    logs = np.log(ratios)
    reach = 1.96 * float(logs.std(ddof=1)) / np.sqrt(logs.size) if logs.size > 1 else 0.0
    return f"{np.exp(logs.mean()):.3f} ±{reach:.3f}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
