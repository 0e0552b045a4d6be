"""Where a simulated cluster's scores come from. In: a scores file, or run times as measured. Out: (class, node, slot).

A scores file is read as everywhere (intake/score_file.py). Measured run times (`uuid` or `gpu`, `node`, and `perf`,
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
from pal_slurm.intake.score_document import placed_scores
from pal_slurm.model import ScoreTable
from pal_slurm.scores import GpuScore, RunTime, binned, score_runs
from pal_slurm.sim.traces.pal import PUBLISHED
from pal_slurm.sim.traces.reading import Row, Table

UNKNOWN = frozenset({"", "-", "?", "none", "null", "nan", "n/a", "na", "unknown"})  # what stands where nobody knew


def read_scores(path: Path, nodes: int, width: int) -> ScoreTable:
    """A file as `palctl scores import` takes it, for a cluster of `nodes` x `width`: nodes in the order of the file."""
    slots: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for (node, slot), row in placed_scores(str(path), PUBLISHED).items():
        slots.setdefault(node, []).append((slot, row))
    widths = {len(mine) for mine in slots.values()}
    if len(slots) != nodes or widths != {width}:
        shape = f"{len(slots)} nodes with {min(widths)} to {max(widths)} GPUs"
        raise BadInput(f"{path} describes {shape}; the cluster is {nodes}x{width}.")
    rows = [row for mine in slots.values() for _, row in sorted(mine, key=lambda of_slot: of_slot[0])]
    classes = tuple(sorted({cls for row in rows for cls in row}))
    cube = np.array([[row.get(cls, np.nan) for row in rows] for cls in classes]).reshape(-1, nodes, width)
    return binned(classes, cube, np.isfinite(cube))


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
            if row.text("node").casefold() in UNKNOWN:
                raise row.error("node", "names no node; fill it in, or leave the row out")
            if not row.text(gpu):
                raise row.error(gpu, "is empty: whose run time is it?")
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
