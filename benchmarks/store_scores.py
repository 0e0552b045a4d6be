"""How long the store takes to align scores with a cluster. In: nothing. Out: seconds, printed.

python benchmarks/store_scores.py [GPUS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pal_slurm.model import homogeneous
from pal_slurm.scores import bin_scores
from pal_slurm.store import Document, Score, ScoreRepo, Sighting, open_store

CLASSES = ("A", "B", "C")
NOW = 1_800_000_000.0


def main() -> None:
    gpus = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    nodes = gpus // 8
    values = np.random.default_rng(1).lognormal(0.0, 0.05, (len(CLASSES), nodes, 8))
    sightings = [Sighting(f"GPU-{n}-{g}", f"n{n + 1}", g, "a100") for n in range(nodes) for g in range(8)]
    scores = [
        Score(f"GPU-{n}-{g}", cls, float(values[c, n, g]), 5, NOW)
        for c, cls in enumerate(CLASSES)
        for n in range(nodes)
        for g in range(8)
    ]
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(f"sqlite:///{Path(directory)}/pal.sqlite", create=True)
        repo = ScoreRepo(store)
        begun = time.perf_counter()
        repo.add(Document("benchmark", "import", sightings, [], scores), NOW)
        stored = time.perf_counter()
        table = repo.table(homogeneous(nodes, 8), CLASSES, NOW, 86_400.0, bin_scores)
        read = time.perf_counter()
        store.close()
    assert (table.score == values).all()
    print(f"{len(sightings)} GPUs, {len(scores)} scores")
    print(f"stored in {stored - begun:.2f} s, aligned and binned in {read - stored:.2f} s")


if __name__ == "__main__":
    main()
