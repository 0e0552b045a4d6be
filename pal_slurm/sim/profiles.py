"""Where a simulated cluster's scores come from. In: a scores CSV, or run times as measured. Out: (class, node, slot).

`gpu,node,class_a,class_b,...` gives one row per GPU. Measured run times (`uuid` or `gpu`, `node`, and `perf`,
`seconds` or `time`, a run time) become medians per GPU; whole nodes are then drawn for the cluster, because
neighbours are alike (between-node share of the variance 0.87-0.99 on Longhorn).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pal_slurm.errors import BadInput
from pal_slurm.model import ScoreTable
from pal_slurm.scores import GpuScore, RunTime, binned, score_runs
from pal_slurm.sim.traces.reading import Row, Table

MAX_SCORE = 100.0


def read_scores(path: Path, nodes: int, width: int) -> ScoreTable:
    """A scores CSV for a cluster of `nodes` x `width`."""
    with Table(path) as table:
        at = table.columns(",", ("gpu", "node"))
        names = sorted(name for name in at if name.lower().startswith("class_"))
        if not names:
            raise table.missing("class_a", "a scores file has one column per class: class_a, class_b ...")
        rows: dict[str, list[list[float]]] = {}
        seen: set[str] = set()
        for row in table.rows(",", at):
            gpu = row.text("gpu")
            if gpu in seen:
                raise row.error("gpu", f"{gpu[:40]!r} comes twice")
            seen.add(gpu)
            rows.setdefault(row.text("node"), []).append([_score(row, name) for name in names])
    widths = {node: len(gpus) for node, gpus in rows.items()}
    if len(rows) != nodes or set(widths.values()) != {width}:
        shape = f"{len(rows)} nodes with {min(widths.values(), default=0)} to {max(widths.values(), default=0)} GPUs"
        raise BadInput(f"{path} describes {shape}; the cluster is {nodes}x{width}.")
    cube = np.array(list(rows.values())).transpose(2, 0, 1)
    return binned(tuple(name[6:].upper() for name in names), np.ascontiguousarray(cube))


def _score(row: Row, column: str) -> float:
    value = row.number(column, above=0.0)
    if value > MAX_SCORE:
        raise row.error(column, f"{value:g} is no score: 1.2 means 20 % slower than the median")
    return value


def read_runs(path: Path) -> Mapping[str, GpuScore]:
    """Scores by medians from a CSV of measured run times."""
    return score_runs(run_times(path))


def run_times(path: Path) -> list[RunTime]:
    """Every run of a CSV of measured run times."""
    with Table(path) as table:
        at = table.columns(",", ("node",))
        gpu = next((name for name in ("uuid", "gpu") if name in at), None)
        time = next((name for name in ("perf", "seconds", "time") if name in at), None)
        if gpu is None or time is None:
            raise table.missing("uuid" if gpu is None else "perf", "a profile names the GPU and its run time")
        cabinet = "cabinet" in at

        def parse(row: Row) -> RunTime:
            node = f"{row.text('cabinet')}-{row.text('node')}" if cabinet else row.text("node")
            return RunTime(row.text(gpu), node, row.number(time, above=0.0))

        return list(table.each(table.rows(",", at), parse))


def draw_rows(profiles: Sequence[Sequence[RunTime]], nodes: int, width: int, seed: int) -> NDArray[np.float64]:
    """(class, node, slot) as the published artifact draws it: any one run, per GPU and class; stalls and all."""
    rng = random.Random(seed)
    rows = [[run.seconds for run in runs] for runs in profiles]
    scale = [float(np.median(seconds)) for seconds in rows]
    drawn = [
        [rng.choice(seconds) / middle for seconds, middle in zip(rows, scale, strict=True)]
        for _ in range(nodes * width)
    ]
    return np.ascontiguousarray(np.array(drawn).T).reshape(len(profiles), nodes, width)


def draw_nodes(profiles: Sequence[Mapping[str, GpuScore]], nodes: int, width: int, seed: int) -> NDArray[np.float64]:
    """(class, node, slot) by drawing whole measured nodes, per class as far as each class was measured.

    Nodes come without replacement until all were drawn. Across classes a GPU's scores are nearly uncorrelated
    (Frontera: 0.08, 0.09, -0.01), and the classes were measured on different nodes, so classes are drawn apart.
    """
    rng = np.random.default_rng(seed)
    cube = np.ones((len(profiles), nodes, width))
    for c, profile in enumerate(profiles):
        by_node: dict[str, list[float]] = {}
        for score in profile.values():
            by_node.setdefault(score.node, []).append(score.score)
        whole = [values[:width] for values in by_node.values() if len(values) >= width]
        if not whole:
            raise BadInput(f"No measured node has {width} GPUs; the profile can't stand for nodes of that size.")
        picks: list[int] = []
        while len(picks) < nodes:
            picks.extend(rng.permutation(len(whole)).tolist())
        cube[c] = [whole[i] for i in picks[:nodes]]
        cube[c] /= np.median(cube[c])
    return cube
