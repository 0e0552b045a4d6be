"""What waiting for pald costs users, beside the same cluster with `enabled = no` in pal_lua.conf.

    python -m benchmarks.bench_price [--release 26.05] [--what srun jobs] [--scores none spread] [--jobs 500]

`srun` of one GPU on an idle cluster, and many one-second jobs. Starts a mini-cluster of its own (16 nodes x 4 fake
GPUs) and a pald with the default settings of pal.yaml. Both sides take turns, three rounds, and the median counts. One
line per figure with what was promised; exit 1 when a promise is not kept. `--scores none`: nothing tells GPUs apart.
`--scores spread`: each GPU has a score of class A, 0.9 to 1.5, so that placement is needed until pald knows how soon
such jobs are over: 50 of them teach it first, and what that took is told too. `--limit 1`: they have a time limit of a
minute; else none.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.slurm.minicluster import RELEASES, Minicluster
from tests.slurm.pald import Pald, lua_settings

SRUN_S = 0.150  # median of `srun --gres=gpu:1 hostname` with pald, on an idle cluster, where no GPU is better
SRUN_TIMES = 2.0  # with pald against without, where some are, once such jobs are known to be over soon
TIMES = {"none": 1.15, "spread": 1.10}  # 500 one-second jobs, with pald against without
TEACH = 50  # jobs
ROUNDS = 3
RUNS = 9  # of srun in one round
DEFAULTS = {
    "cycle.interval_s": 5,
    "budget.edits_per_s": 20,
    "budget.read_share": 0.05,
    "lease.let_through": True,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What waiting for pald costs users.")
    parser.add_argument("--release", choices=tuple(RELEASES), default="26.05")
    parser.add_argument("--what", nargs="+", choices=("srun", "jobs"), default=["srun", "jobs"])
    parser.add_argument("--scores", nargs="+", choices=("none", "spread"), default=["none", "spread"])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--limit", type=int, help="time limit of the jobs, in minutes; else they have none")
    parser.add_argument("--stock-scheduling", action="store_true", help="Slurm's own intervals")
    options = parser.parse_args(argv)
    kept = True
    for scores in options.scores:
        more = ["--stock-scheduling"] if options.stock_scheduling else []
        cluster = Minicluster.up(f"price{os.getpid()}", options.release, "--nodes", "16", "--gpus", "4", *more)
        try:
            with tempfile.TemporaryDirectory() as directory, Pald(cluster, Path(directory), DEFAULTS) as pald:
                pald.start()
                if scores == "spread":
                    pald.scores(spread(cluster))
                    pald.wait_cycle()
                limit = [] if options.limit is None else ["-t", str(options.limit)]
                for what in options.what:
                    if scores == "spread":
                        teach(cluster, what, limit)
                        pald.wait_cycle()
                    kept &= srun(cluster, scores) if what == "srun" else jobs(cluster, scores, options.jobs, limit)
        finally:
            cluster.down()
    return 0 if kept else 1


def spread(cluster: Minicluster) -> dict[str, float]:
    """A score for each GPU, the same in every run."""
    draw = random.Random(4)
    gpus = (f"{node}:{slot}" for node in cluster.nodes for slot in range(4))
    return {gpu: draw.choice((0.9, 0.95, 1.0, 1.0, 1.1, 1.5)) for gpu in gpus}


def teach(cluster: Minicluster, what: str, limit: list[str]) -> None:
    """Jobs of the kind that is measured, until pald knows how soon they are over."""
    lua_settings(cluster, enabled="yes")
    if what == "srun":
        took = [once(cluster) for _ in range(TEACH)]
        show("srun, the first", "spread", f"{statistics.median(took) * 1000:.0f} ms", f"the median of {TEACH}")
        return
    took_s = drain(cluster, TEACH, limit)
    show(f"the first {TEACH} jobs", "spread", f"{took_s:.1f} s", "nothing promised")


def srun(cluster: Minicluster, scores: str) -> bool:
    rounds = [(sruns(cluster, "no"), sruns(cluster, "yes")) for _ in range(ROUNDS)]
    without, ours = (statistics.median(side) for side in zip(*rounds, strict=True))
    most = SRUN_S if scores == "none" else SRUN_TIMES * without
    told = f"promised {most * 1000:.0f} ms; {without * 1000:.0f} ms without, x{ours / without:.1f}"
    show("srun --gres=gpu:1", scores, f"{ours * 1000:.0f} ms", told)
    return bool(ours <= most)


def sruns(cluster: Minicluster, enabled: str) -> float:
    """The median of some, each on an idle cluster."""
    lua_settings(cluster, enabled=enabled)
    took = []
    for i in range(RUNS):
        quiet(cluster)
        time.sleep(0.3 + 0.11 * i)  # out of step with slurmctld's own second
        took.append(once(cluster))
    return statistics.median(took)


def once(cluster: Minicluster) -> float:
    began = time.monotonic()
    cluster.client("srun", "--comment=app:resnet", "--gres=gpu:1", "hostname")
    return time.monotonic() - began


def jobs(cluster: Minicluster, scores: str, many: int, limit: list[str]) -> bool:
    rounds = []
    for _ in range(ROUNDS):
        took = []
        for enabled in ("no", "yes"):
            lua_settings(cluster, enabled=enabled)
            quiet(cluster)
            took.append(drain(cluster, many, limit))
        rounds.append((took[1] / took[0], *took))
    ratio, without, ours = sorted(rounds)[len(rounds) // 2]
    told = f"promised {TIMES[scores]:.2f}; {ours:.1f} s against {without:.1f} s; load {os.getloadavg()[0]:.0f}"
    show(f"{many} one-second jobs", scores, f"{ratio:.2f} x", told)
    return ratio <= TIMES[scores]


def drain(cluster: Minicluster, many: int, limit: list[str]) -> float:
    """Seconds from the first submission until the queue is empty."""
    script = cluster.dir / "run" / "second"
    script.write_text("#!/bin/sh\nsleep 1\n")
    script.chmod(0o755)
    asks = " ".join(["-Q", "-o", "/dev/null", "--gres=gpu:1", "--comment=app:resnet", *limit])
    line = f"for i in $(seq {many // 2}); do sbatch {asks} {script}; done"
    began = time.monotonic()
    fillers = [subprocess.Popen([cluster.bin / "in-cluster", "sh", "-c", line], cwd="/tmp") for _ in range(2)]
    if any(filler.wait() for filler in fillers):
        sys.exit("bench_price: sbatch failed")
    quiet(cluster)
    return time.monotonic() - began


def quiet(cluster: Minicluster) -> None:
    while cluster.client("squeue", "-h", "-o", "%i").strip():
        time.sleep(0.1)


def show(what: str, scores: str, figure: str, told: str) -> None:
    print(f"{what:<22} scores {scores:<7} {figure:>9}   {told}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
