"""What pald costs on a real Slurm: throughput, added wait, load on slurmctld; each against stock in the same run.

    python -m benchmarks.bench_live [--release 26.05] [--what throughput wait load] [--jobs 1000]

Starts a mini-cluster of its own (16 nodes x 4 fake GPUs) and prints one line per figure with what was promised; exit 1
when a promise is not kept. Both sides run on the same cluster, one after the other: a busy machine slows both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.slurm.backends import backend_of
from tests.slurm.measured import rpc_us, shipped, show
from tests.slurm.minicluster import RELEASES, Minicluster

TIMES_STOCK = 1.10  # 1,000 one-second jobs, with pald against without
ADDED_WAIT_S = 1.0  # median, on an idle cluster
LOAD_SHARE = 0.05  # of slurmctld's time, with 2,000 pending jobs
MANY = 'i=0; while [ $i -lt %d ]; do sbatch -Q -o /dev/null --gres=gpu:1 --comment=app:resnet "$0"; i=$((i+1)); done'
STAMP = "date +%s.%N > "


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What pald costs on a real Slurm.")
    parser.add_argument("--release", choices=tuple(RELEASES), default="26.05")
    parser.add_argument(
        "--what", nargs="+", choices=("throughput", "wait", "load"), default=["wait", "throughput", "load"]
    )
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args(argv)
    cluster = Minicluster.up(f"live{os.getpid()}", options.release, "--nodes", "16", "--gpus", "4")
    kept = True
    try:
        with tempfile.TemporaryDirectory() as directory:
            home = Path(directory)
            if "wait" in options.what:
                kept &= wait(cluster, home)
            if "throughput" in options.what:
                kept &= throughput(cluster, home, options.jobs)
            if "load" in options.what:
                kept &= load(cluster, home)
    finally:
        cluster.down()
    return 0 if kept else 1


def throughput(cluster: Minicluster, home: Path, jobs: int) -> bool:
    stock = drain(cluster, jobs)
    with shipped(cluster, home / "throughput") as pald:
        pald.start()
        ours = drain(cluster, jobs)
        cycles = pald.said().count(" pending")
    ratio = ours / stock
    show(
        f"{jobs} one-second jobs",
        f"{ratio:.2f} x stock",
        f"promised {TIMES_STOCK:.2f}; {ours:.1f} s against {stock:.1f} s, {cycles} cycles",
    )
    return ratio <= TIMES_STOCK


def drain(cluster: Minicluster, jobs: int) -> float:
    """Seconds from the first submission until the queue is empty."""
    script = cluster.dir / "run" / "second"
    script.write_text("#!/bin/sh\nsleep 1\n")
    script.chmod(0o755)
    began = time.monotonic()
    fillers = [
        subprocess.Popen([cluster.bin / "in-cluster", "sh", "-c", MANY % (jobs // 2), str(script)], cwd="/tmp")
        for _ in range(2)
    ]
    if any(filler.wait() for filler in fillers):
        sys.exit("bench_live: sbatch failed")
    while cluster.client("squeue", "-h", "-o", "%i").strip():
        time.sleep(0.25)
    return time.monotonic() - began


def wait(cluster: Minicluster, home: Path, times: int = 21) -> bool:
    """From before sbatch until the script runs, one job at a time on an idle cluster."""
    stock = [one_wait(cluster) for _ in range(times)]
    with shipped(cluster, home / "wait") as pald:
        pald.start()
        ours = [one_wait(cluster) for _ in range(times)]
    added = statistics.median(ours) - statistics.median(stock)
    told = f"promised {ADDED_WAIT_S:.1f} s; {statistics.median(ours):.2f} s against {statistics.median(stock):.2f} s"
    show("added wait, median", f"{added:.2f} s", told)
    return added <= ADDED_WAIT_S


def one_wait(cluster: Minicluster) -> float:
    stamp = cluster.dir / "run" / "stamp"
    stamp.unlink(missing_ok=True)
    began = time.time()
    cluster.submit("--gres=gpu:1", "--comment=app:resnet", wrap=f"{STAMP}{stamp}")
    while not (stamp.exists() and stamp.read_text().strip()):
        time.sleep(0.02)
    started = float(stamp.read_text())
    while cluster.client("squeue", "-h", "-o", "%i").strip():
        time.sleep(0.1)
    time.sleep(0.37)  # out of step with slurmctld's own second
    return started - began


def load(cluster: Minicluster, home: Path, pending: int = 2000, seconds: float = 30.0) -> bool:
    """sdiag before and after: what our questions and edits took of slurmctld's time, with a long queue."""
    for _ in range(16 * 4):
        cluster.submit("--gres=gpu:1", wrap="sleep 3600")
    with shipped(cluster, home / "load") as pald:
        pald.start()
        script = cluster.dir / "run" / "second"
        script.write_text("#!/bin/sh\nsleep 1\n")
        script.chmod(0o755)
        subprocess.run([cluster.bin / "in-cluster", "sh", "-c", MANY % pending, str(script)], cwd="/tmp", check=True)
        pald.wait_cycle()
        with backend_of(cluster, "cli") as slurm:
            before, cycles = rpc_us(cluster), pald.said().count(" pending")
            began = time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            share = (rpc_us(cluster) - before) / 1e6 / took
            cycles = pald.said().count(" pending") - cycles
            waiting = slurm.pulse().pending
    show(
        "of slurmctld's time",
        f"{share:.1%}",
        f"promised {LOAD_SHARE:.0%}; {waiting} pending, {cycles} cycles in {took:.0f} s",
    )
    cluster.client("scancel", "--user=root")
    return share <= LOAD_SHARE


if __name__ == "__main__":
    sys.exit(main())
