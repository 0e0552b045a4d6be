"""How long scores take to come out of the store. In: a size. Out: seconds, printed.

    python benchmarks/store_scores.py [GPUS]                         # aligned with a cluster, as pald reads them
    python benchmarks/store_scores.py 10000 --nights 365 [--in DIR]  # what palctl shows of them, by the wall clock

With --nights the database also holds four kernels of every GPU in every night, two of them of one class; `--in` keeps
it, and a DIR that holds one already is used as it is.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sqlalchemy import func, insert, literal, select

from pal_slurm.model import homogeneous
from pal_slurm.scores import binned
from pal_slurm.store import Delivery, Score, ScoreRepo, Sighting, Store, open_store
from pal_slurm.store.tables import gpus, nights

CLASSES = ("A", "B", "C")
KERNELS = (("A", "resnet"), ("A", "gemm"), ("B", "transformer"), ("C", "pagerank"))
NOW = 1_800_000_000.0
DAY_S = 86_400
WORDS = (
    "scores",
    "scores --json",
    "scores --outliers",
    "scores --stale",
    "scores --per node",
    "scores --since 30d",
    "scores --since 30d --json",
    "scores --since 1y --class A",
    "scores --since 1y",
    "gpu n100:3",
)


def fill(store: Store, n_gpus: int, now: float) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    nodes = n_gpus // 8
    values = np.random.default_rng(1).lognormal(0.0, 0.05, (len(CLASSES), nodes, 8))
    sightings = [Sighting(f"GPU-{n:08x}-{g}", f"n{n + 1}", g, "a100") for n in range(nodes) for g in range(8)]
    scores = [
        Score(f"GPU-{n:08x}-{g}", cls, float(values[c, n, g]), 5, now)
        for c, cls in enumerate(CLASSES)
        for n in range(nodes)
        for g in range(8)
    ]
    ScoreRepo(store).add(Delivery("benchmark", "import", sightings, [], scores), now)
    return values


def fill_nights(store: Store, count: int, now: float) -> None:
    """Rows as nights leave them; the database makes them, which is quicker than taking in 150 million runs."""
    last = int(now // DAY_S)
    names = [column.name for column in nights.columns]
    for night in range(last - count + 1, last + 1):
        with store.writing() as db:
            for cls, app in KERNELS:
                values = {
                    "gpu_id": gpus.c.id, "class": literal(cls), "app": literal(app), "scope": literal("gpu"),
                    "night": literal(night), "seconds": literal(0.2), "stalled": literal(0.0),
                    "spread": literal(0.001), "runs": literal(5), "stalls": literal(0), "node_stalls": literal(0),
                    "measured_at": literal(float(night * DAY_S + 7_200)), "node": literal("n1"),
                    "setup": literal("550.54|400"),
                    "score": literal(0.98) + func.abs(func.random() % 1_000) / literal(25_000.0),
                }  # fmt: skip
                db.execute(insert(nights).from_select(names, select(*(values[name] for name in names))))


def align(n_gpus: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(f"sqlite:///{Path(directory)}/pal.sqlite", create=True)
        begun = time.perf_counter()
        values = fill(store, n_gpus, NOW)
        stored = time.perf_counter()
        score, known = ScoreRepo(store).aligned(homogeneous(n_gpus // 8, 8), CLASSES, NOW, float(DAY_S))
        table = binned(CLASSES, score, known)
        read = time.perf_counter()
        store.close()
    assert (table.score == values).all()
    print(f"{n_gpus} GPUs, {values.size} scores")
    print(f"stored in {stored - begun:.2f} s, aligned and binned in {read - stored:.2f} s")


def show(n_gpus: int, count: int, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    config, file = directory / "pal.yaml", directory / "pal.sqlite"
    if not file.exists():
        config.write_text(f"state_dir: {directory.absolute()}\n")
        begun = time.perf_counter()
        store, now = open_store(f"sqlite:///{file.absolute()}", create=True), time.time()
        fill(store, n_gpus, now)
        fill_nights(store, count, now)
        store.close()
        print(f"{n_gpus * count * len(KERNELS)} rows of nights made in {time.perf_counter() - begun:.0f} s")
    print(f"{file.stat().st_size >> 20} MB of database")
    palctl = [str(Path(sys.executable).parent / "palctl"), "--config", str(config)]
    for words in WORDS:
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*palctl, *words.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        print(f"palctl {words:<30} {took:6.2f} s, {cpu:5.2f} s of CPU, at most {after.ru_maxrss >> 10} MB so far")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpus", nargs="?", type=int, default=100_000)
    parser.add_argument("--nights", type=int, default=0)
    parser.add_argument("--in", dest="directory", type=Path)
    options = parser.parse_args()
    if not options.nights:
        align(options.gpus)
    elif options.directory:
        show(options.gpus, options.nights, options.directory)
    else:
        with tempfile.TemporaryDirectory(prefix="pal-bench-") as made:
            show(options.gpus, options.nights, Path(made))


if __name__ == "__main__":
    main()
