"""How long a night of a large fleet takes to come in. In: a size. Out: seconds, memory, the longest write transaction.

    python benchmarks/ingest_night.py [--nodes 1250] [--gpus 8] [--nights 2]

Each node writes one document as pal-probe does: four kernels, five rounds, telemetry beside each run.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timed_store import timed_store
from pal_slurm.config import Config
from pal_slurm.learning.run import ingest
from pal_slurm.probe.document import Device, Document, Kernel, Telemetry, TimedRun, to_json

KERNELS = {"resnet": "A", "transformer": "B", "pagerank": "C", "gemm": "A"}
TELEMETRY = Telemetry(25, 1400.0, 1300.0, 1500.0, 300.0, 320.0, 60.0, 62.0, 0.9, 0.3)
FIRST = 1_790_000_000.0 // 86_400 * 86_400


def write_night(spool: Path, nodes: int, gpus: int, at: float, rng: random.Random) -> None:
    for n in range(nodes):
        devices = tuple(
            Device(f"GPU-{n}-{g}-0000", f"n{n}", g, "A100", "test", driver="1", power_cap_w=400.0) for g in range(gpus)
        )
        runs = tuple(
            TimedRun(app, (device.uuid,), "gpu", 0.2 * rng.lognormvariate(0, 0.01), at + r * 60, r, 25, "s", TELEMETRY)
            for r in range(5)
            for app in KERNELS
            for device in devices
        )
        kernels = tuple(Kernel(app, app, cls) for app, cls in KERNELS.items())
        document = Document("bench", "benchmark", at, at + 400, None, devices, kernels, runs)
        (spool / f"bench-{n}.json").write_text(to_json(document))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--nights", type=int, default=2)
    options = parser.parse_args()
    rng = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="pal-bench-") as directory:
        spool = Path(directory) / "spool"
        spool.mkdir()
        store = timed_store(directory)
        for night in range(options.nights):
            write_night(spool, options.nodes, options.gpus, FIRST + night * 86_400 + 7_200, rng)
            begun = time.monotonic()
            done = ingest(store, Config(state_dir=directory), spool, FIRST + night * 86_400 + 20_000)
            took = time.monotonic() - begun
            print(f"night {night + 1}: {done.runs} runs, {done.rescored.scores} scores in {took:.1f} s")
        store.close()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"longest write transaction {store.longest:.1f} s, {most} MB of memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
