"""How fast Slurm is read and written through each backend.

    python -m benchmarks.bench_backends [--backend cli] [--release 22.05] [--jobs 2000] [--nodes 64] [--edits 512]
    python -m benchmarks.bench_backends --backend pyslurm --release 26.05

Starts a mini-cluster of its own, fills it with waiting jobs, and prints one line per figure with what was promised;
exit 1 when a promise is not kept. With pyslurm, each snapshot is measured beside a bare Jobs.load + Nodes.load in a
process of its own, one after the other, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from pal_slurm.model import Edit, Job, Outcome, Pin, Renew, Unpin
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import WORKER_PYTHON, backend_of
from tests.slurm.minicluster import RELEASES, Minicluster

READ_S = {"cli": 0.4}  # 2,000 waiting jobs and 64 nodes into model objects
TIMES_BARE = 2.0  # the same through pyslurm, against pyslurm alone
BARE = """
import os, sys, time
os.environ["PYSLURM_DISABLE_AUTO_INIT"] = "1"
import pyslurm
pyslurm.slurm_init()
for line in sys.stdin:
    began = time.perf_counter()
    jobs, nodes = pyslurm.Jobs.load(), pyslurm.Nodes.load()
    print(time.perf_counter() - began, flush=True)
"""
EDITS_PER_S = {"cli": 100.0, "pyslurm": 400.0}  # nodes, GRES and start time in one update, and the re-read
# sbatch after sbatch, from inside the cluster; twice at once, for two cores.
FILL = 'for i in $(seq %d); do sbatch -Q -o /dev/null --begin=now+1day --comment=app:resnet --gres=gpu:%d "$0"; done'


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Speed of a backend on a real slurmctld.")
    parser.add_argument("--backend", choices=("cli", "pyslurm"), default="cli")
    parser.add_argument("--release", choices=tuple(RELEASES), default="22.05")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--edits", type=int, default=512)
    options = parser.parse_args(argv)
    name = f"bench{os.getpid()}"
    cluster = Minicluster.up(name, options.release, "--nodes", str(options.nodes), "--gpus", "4")
    try:
        fill(cluster, options.jobs)
        with backend_of(cluster, options.backend, deadline_s=60.0) as slurm:
            print(
                f"{options.backend} on Slurm {slurm.capabilities().release}: {options.jobs} jobs, {options.nodes} nodes"
            )
            kept = measure_reads(slurm, options.backend)
            if options.backend == "pyslurm":
                kept &= measure_against_bare(slurm, cluster)
            kept &= measure_edits(slurm, options.backend, options.edits)
    finally:
        cluster.down()
    return 0 if kept else 1


def fill(cluster: Minicluster, jobs: int) -> None:
    """Waiting jobs of one and of two GPUs."""
    script = cluster.dir / "run" / "bench-job"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(0o755)
    half = jobs // 2
    fillers = [
        subprocess.Popen([cluster.bin / "in-cluster", "sh", "-c", FILL % (count, gpus), str(script)], cwd="/tmp")
        for gpus, count in ((1, half), (2, jobs - half))
    ]
    if any(filler.wait() for filler in fillers):
        sys.exit("bench_backends: sbatch failed")


def measure_reads(slurm: Slurm, backend: str) -> bool:
    told = f"promised {READ_S[backend]:.2f} s" if backend in READ_S else ""
    took = timed(slurm.snapshot)
    show("snapshot", f"{took:.3f} s", told)
    show("pulse", f"{timed(slurm.pulse):.3f} s", "")
    one = slurm.snapshot().pending[0].id
    show("one job", f"{timed(lambda: slurm.jobs([one])):.4f} s", "")
    return took <= READ_S.get(backend, took)


def measure_against_bare(slurm: Slurm, cluster: Minicluster, times: int = 25) -> bool:
    command = [str(cluster.bin / "in-cluster"), WORKER_PYTHON, "-c", BARE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as bare:
        assert bare.stdin and bare.stdout
        ours, theirs = [], []
        for _ in range(times):
            bare.stdin.write("\n")
            theirs.append(float(bare.stdout.readline()))
            began = time.perf_counter()
            slurm.snapshot()
            ours.append(time.perf_counter() - began)
    ratio = statistics.median(ours) / statistics.median(theirs)
    show("bare load", f"{statistics.median(theirs):.3f} s", f"best {min(theirs):.3f} s")
    told = f"promised {TIMES_BARE:.1f}; {statistics.median(ours):.3f} s, best {min(ours):.3f} s"
    show("times bare", f"{ratio:.2f}", told)
    return ratio <= TIMES_BARE


def measure_edits(slurm: Slurm, backend: str, count: int) -> bool:
    able = slurm.capabilities()
    jobs = slurm.snapshot().pending[:count]
    until = int(time.time()) + 7200
    rate(slurm, "renewals", [Renew(job.id, until=until) for job in jobs], "")
    pins = rate(slurm, "pins", [pin(job) for job in jobs], f"promised {EDITS_PER_S[backend]:.0f}/s")
    if able.restore_untyped:
        undo = [Unpin(job.id, until=until, original=job.request) for job in jobs]
        rate(slurm, "un-pins", undo, "")
    return pins >= EDITS_PER_S[backend]


def pin(job: Job) -> Edit:
    slots = tuple(range(job.shape.least_gpus)) if job.shape else ()
    return Pin(job.id, nodes=("n1",), slots=slots, original=job.request)


def rate(slurm: Slurm, what: str, edits: Sequence[Edit], told: str) -> float:
    began = time.perf_counter()
    results = slurm.apply(edits)
    took = time.perf_counter() - began
    good = sum(result.outcome in (Outcome.DONE, Outcome.STARTED) for result in results)
    show(what, f"{len(edits) / took:.0f}/s", f"{told}; {good} of {len(edits)} as asked".lstrip("; "))
    return len(edits) / took


def timed(call: Callable[[], object], times: int = 5) -> float:
    """Median seconds, after one call that warms up."""
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def show(what: str, figure: str, told: str) -> None:
    print(f"  {what:<10} {figure:>10}   {told}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
