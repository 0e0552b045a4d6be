"""How long the fleet's page takes and how large it is. In: a size. Out: seconds, memory, bytes.

    python -m benchmarks.report_page [--nodes 1250] [--gpus 8] [--nights 28] [--keep DIRECTORY]

The database is filled with nights and scores as ingest writes them; the page is written by `palctl report --html`,
started as a program. With --keep the database and the page stay, to be looked at.
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

from pal_slurm.store import GpuRepo, Sighting, Store, open_store
from pal_slurm.store.nights import KernelKey, NightRepo, NightRow, ProfiledScore
from tests.web.browser import BROWSER, Browser

KERNELS = {"resnet": "A", "gemm": "A", "transformer": "B", "pagerank": "C"}
FELT = {"A": 1.0, "B": 0.6, "C": 0.1}
DAY_S = 86_400


def fill(store: Store, nodes: int, gpus: int, nights: int, now: float) -> None:
    rng = np.random.default_rng(1)
    places = [(f"gpu{n // 100 + 1:02}-{n % 100 + 1:03}", slot) for n in range(nodes) for slot in range(gpus)]
    GpuRepo(store).see([Sighting(f"GPU-{n:06x}-{s}", n_, s, "H100") for n, (n_, s) in enumerate(places)], now)
    slow = rng.lognormal(0, 0.03, len(places))
    slow[rng.choice(len(places), len(places) // 500, replace=False)] *= 1.4
    newest = int(now // DAY_S) - 1
    repo = NightRepo(store)
    for night in range(newest - nights + 1, newest + 1):
        made: dict[KernelKey, list[NightRow]] = {}
        for app, cls in KERNELS.items():
            own = slow ** FELT[cls] * rng.lognormal(0, 0.005, len(places))
            made[KernelKey(cls, app, "gpu")] = [
                NightRow(i + 1, night, 0.2 * v, 0.2 * v, 0.01, 5, 0, 0, night * DAY_S + 7200.0, place[0], "1|400", v)
                for i, (v, place) in enumerate(zip(own.tolist(), places, strict=True))
            ]
        repo.write(made, _scores(slow, nights, newest) if night == newest else [], [], {}, now)


def _scores(slow: np.ndarray[tuple[int], np.dtype[np.float64]], nights: int, newest: int) -> list[ProfiledScore]:
    return [
        ProfiledScore(
            i + 1, cls, score, 0.002, score * 0.996, score * 1.004, 5 * nights, nights, newest - nights + 1, 0, 0, 1.0,
            False, newest * DAY_S + 7200.0,
        )
        for cls, felt in FELT.items()
        for i, score in enumerate((slow**felt).tolist())
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--nights", type=int, default=28)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pal-bench-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(exist_ok=True)
        store = open_store(f"sqlite:///{directory}/pal.sqlite", create=True)
        fill(store, options.nodes, options.gpus, options.nights, time.time())
        store.close()
        (directory / "pal.yaml").write_text(f"state_dir: {directory}\n")
        page = directory / "fleet.html"
        palctl = [sys.executable, "-c", "from pal_slurm.cli.palctl import main; main()"]
        begun = time.perf_counter()
        subprocess.run([*palctl, "--config", directory / "pal.yaml", "report", "--html", page], check=True)
        took, size = time.perf_counter() - begun, page.stat().st_size
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        opened = opening(page, Path(temporary)) if BROWSER.exists() else None
    print(f"{options.nodes * options.gpus} GPUs, {options.nights} nights: {took:.1f} s, {most} MB of memory")
    print(f"{size / 1e6:.2f} MB of page; Chromium opens it in {f'{opened:.2f} s' if opened else '- (not installed)'}")
    return 0


def opening(page: Path, directory: Path) -> float:
    """Seconds until the page is there, laid out and all."""
    browser = Browser(directory / "profile")
    try:
        begun = time.perf_counter()
        browser.open(page)
        browser.ask("return document.body.getBoundingClientRect().height")
        return time.perf_counter() - begun
    finally:
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
