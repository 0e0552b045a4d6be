"""Jobs that must not wait for pald, beside the same cluster with `enabled = no` in pal_lua.conf.

    python -m benchmarks.bench_waiting [--release 26.05] [--case array stream ...] [--rounds 5]

Starts a mini-cluster of its own (4 nodes x 4 fake GPUs, scores spread) and for each case and round a pald that knows
nothing yet, with the default settings of pal.yaml. One line per round with what was promised; exit 1 when a promise is
not kept in a round. tests/slurm/waiting.py tells the cases.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.slurm.minicluster import RELEASES, Minicluster
from tests.slurm.waiting import CASES, CLUSTER, Case, started_pald, taught, told


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Jobs that must not wait for pald.")
    parser.add_argument("--release", choices=tuple(RELEASES), default="26.05")
    parser.add_argument("--case", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="keep each pald's directory there")
    options = parser.parse_args(argv)
    cluster = Minicluster.up(f"waiting{os.getpid()}", options.release, *CLUSTER)
    kept = True
    try:
        for name in options.case:
            for i in range(options.rounds):
                kept &= one(cluster, CASES[name], i, options.keep)
    finally:
        cluster.down()
    return 0 if kept else 1


def one(cluster: Minicluster, case: Case, number: int, keep: Path | None) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) if keep is None else keep / f"{cluster.release}-{case.name}-{number}"
        home.mkdir(parents=True, exist_ok=True)
        with started_pald(cluster, home):
            taught(cluster, case)
            pair = told(cluster, case, ours_first=number % 2 == 1)
    good = case.kept(pair)
    bound = f"{case.times:.2f} x" + (f" or {case.plus_s:.0f} s more" if case.plus_s else "")
    ratio = pair.ours_s / pair.stock_s
    text = f"{cluster.release}  {case.name:<12} {pair}  {ratio:5.2f} x   promised {bound}"
    print(text + ("" if good else "  NOT KEPT"), flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
