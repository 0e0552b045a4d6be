"""The measured runs of Longhorn's V100s, as columns. In: the public data. Out: Runs and names."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pal_slurm.model import FloatArray
from pal_slurm.scores.nights import Runs

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "pal" / "longhorn"


@dataclass(frozen=True)
class Longhorn:
    uuids: list[str]
    node_of: list[int]
    runs: Runs
    own: list[FloatArray]  # run times of each GPU

    @property
    def medians(self) -> FloatArray:
        typical = np.array([np.median(seconds) for seconds in self.own])
        return np.asarray(typical / np.median(typical))


def longhorn(app: str) -> Longhorn:
    path = DATA / f"{app}-longhorn-agg.csv"
    if not path.exists():
        pytest.skip(f"NO PUBLIC DATA: {path.name} is not in ../shared/data; this test proves nothing here")
    with path.open(newline="") as file:
        rows = [
            (r["uuid"], f"{r['cabinet']}-{r['node']}", float(r["perf"]), int(r["ts"])) for r in csv.DictReader(file)
        ]
    uuids = sorted({row[0] for row in rows})
    nodes = sorted({row[1] for row in rows})
    gpu = np.array([uuids.index(row[0]) for row in rows])
    node = np.array([nodes.index(row[1]) for row in rows])
    at = np.array([float(row[3]) for row in rows])
    seconds = np.array([row[2] for row in rows])
    runs = Runs(gpu, np.zeros_like(gpu), node, (at // 86_400).astype(np.intp), seconds, at)
    own = [seconds[gpu == g] for g in range(len(uuids))]
    return Longhorn(uuids, [int(node[gpu == g][0]) for g in range(len(uuids))], runs, own)


def draws(data: Longhorn, nights: int, per_night: int, seed: int) -> Runs:
    """Each GPU's own runs, drawn with replacement night by night."""
    rng = np.random.default_rng(seed)
    seconds = np.array([rng.choice(own, (nights, per_night)) for own in data.own])  # GPU, night, run
    gpu, night, run = np.indices(seconds.shape)
    node = np.array(data.node_of)[gpu]
    return Runs(
        gpu=gpu.ravel(),
        kernel=np.zeros(gpu.size, dtype=np.intp),
        node=node.ravel(),
        night=night.ravel(),
        seconds=seconds.ravel(),
        at=(night * 86_400.0 + run * 600.0).ravel(),
    )


def spearman(a: FloatArray, b: FloatArray) -> float:
    first, second = (np.argsort(np.argsort(values)).astype(np.float64) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])
