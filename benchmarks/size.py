"""pald on the largest sites: a real slurmctld with 10,000 nodes and 50,000 pending jobs.

    python -m benchmarks.size [--release 26.05] [--nodes 10000] [--pending 50000] [--submitters 2]

Starts a mini-cluster of its own whose nodes have no slurmd of their own (`minicluster up --hollow`), gives three of
four GPUs on each to jobs that stay, lets pald lease as many jobs of two to four GPUs as asked for, and then measures:
memory, the share of slurmctld's time that reading takes, how many cycles pass before a new job that fits has its pin,
and what a submission takes while pald runs and while it is stopped, turn by turn. Exit 1 when a promise is not kept.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pal_slurm.model import EditKind
from tests.slurm.measured import below, rss_mb, shipped, show
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald

RSS_MB = 512
READ_SHARE = 0.05
CYCLES = 2
TIMES_WITHOUT = 1.10
APPS = ("resnet", "bert", "gpt", "dlrm", "vgg19", "lstm", "pagerank", "unet")
HELD = "i=0; while [ $i -lt %d ]; do salloc --no-shell -Q -N %d --gpus-per-node=3 -t 1000; i=$((i+1)); done"
SUBMIT = 'sbatch -Q -o /dev/null --gres=gpu:%d -t %d --comment=app:%s "$1"\n'


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="pald on the largest sites.")
    parser.add_argument("--release", choices=("26.05", "24.11"), default="26.05")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pending", type=int, default=50_000)
    parser.add_argument("--submitters", type=int, default=2)
    options = parser.parse_args(argv)
    begun = time.monotonic()
    # `defer`, as Slurm's own page on large systems has it; everything else is Slurm's default.
    sets = ("MaxJobCount=200000", "SchedulerParameters=disable_job_shrink,defer")
    words = [word for setting in sets for word in ("--set", setting)]
    cluster = Minicluster.up(
        f"size{os.getpid()}", options.release, "--nodes", "2", "--gpus", "4", "--hollow", str(options.nodes), *words
    )
    try:
        with tempfile.TemporaryDirectory() as directory, shipped(cluster, Path(directory)) as pald:
            hold(cluster, options.nodes)
            pald.configure({"cluster.timeout_s": 60})
            scores(pald, cluster, options.nodes)
            pald.start()
            fill(cluster, options.pending, options.submitters)
            told = cluster.client("sinfo", "-h", "-o", "%D nodes %T", timeout=120).strip().replace("\n", ", ")
            print(f"{told}; {options.pending} submitted after {time.monotonic() - begun:.0f} s", flush=True)
            kept = [reading(pald, cluster), memory(pald), pinned(pald, cluster), submitting(pald, cluster)]
            return 0 if all(kept) else 1
    finally:
        cluster.down()


def hold(cluster: Minicluster, nodes: int) -> None:
    """Jobs that run without a process, on three GPUs of each node; the real nodes are not wanted."""
    cluster.client("scontrol", "update", "nodename=n[1-2]", "state=drain", "reason=size")
    cluster.client("sh", "-c", HELD % (20, nodes // 20), timeout=3600)


def scores(pald: Pald, cluster: Minicluster, nodes: int) -> None:
    """Every GPU has one, per class."""
    draw = random.Random(1)
    table = cluster.dir / "run" / "scores.csv"
    rows = (
        f"h{i},{slot},{model},{name},{min(2.0, 1 + abs(draw.gauss(0, 0.08))):.3f}"
        for i in range(1, nodes + 1) for slot in range(4) for model in ("a100",) for name in "ABC"
    )  # fmt: skip
    table.write_text("\n".join(["node,slot,model,class,score", *rows]) + "\n")
    pald.palctl("db", "upgrade")
    pald.palctl("scores", "import", str(table))


def fill(cluster: Minicluster, pending: int, submitters: int) -> None:
    """Jobs that fit on no node as long as those that stay hold three of four GPUs.

    The clients read a slurm.conf without nodes: reading all of them takes six times as long as asking.
    """
    short = cluster.etc / "client.conf"
    lines = (cluster.etc / "slurm.conf").read_text().splitlines()
    short.write_text("\n".join(line for line in lines if not line.startswith(("NodeName=", "PartitionName="))) + "\n")
    script = cluster.dir / "run" / "second"
    script.write_text("#!/bin/sh\nsleep 1\n")
    script.chmod(0o755)
    draw = random.Random(2)
    jobs = [SUBMIT % (draw.choice((2, 3, 4)), draw.randint(10, 900), draw.choice(APPS)) for _ in range(pending)]
    parts = []
    for i in range(submitters):
        part = cluster.dir / "run" / f"submit{i}"
        part.write_text(f"export SLURM_CONF={short}\n" + "".join(jobs[i::submitters]))
        parts.append(subprocess.Popen([cluster.bin / "in-cluster", "sh", "-e", part, script], cwd="/tmp"))
    if any(part.wait() for part in parts):
        sys.exit("size: sbatch failed")


def reading(pald: Pald, cluster: Minicluster, seconds: float = 120.0) -> bool:
    pald.wait_cycle(within=600)
    before, cycles, began = spent_s(cluster), count(pald), time.monotonic()
    time.sleep(seconds)
    pald.wait_cycle(within=600)
    after, took = spent_s(cluster), time.monotonic() - began
    waiting = len(cluster.client("squeue", "-h", "-t", "PD", "-o", "%i", timeout=120).split())
    read, edits = ((after[what] - before[what]) / took for what in ("_INFO", "_UPDATE_JOB"))
    told = f"{waiting} pending, {count(pald) - cycles} cycles in {took:.0f} s; edits {edits:.1%} beside it"
    show("of slurmctld's time", f"{read:.1%}", f"promised {READ_SHARE:.0%}; {told}")
    return read <= READ_SHARE


def spent_s(cluster: Minicluster) -> dict[str, float]:
    """slurmctld's seconds on questions and on edits, whoever sent them: only pald does here."""
    spent = {"_INFO": 0.0, "_UPDATE_JOB": 0.0}
    for line in cluster.client("sdiag").splitlines():
        found = re.match(r"\s+REQUEST\w*(_INFO|_UPDATE_JOB)\w*\s.*total_time:(\d+)", line)
        if found:
            spent[found[1]] += int(found[2]) / 1e6
    return spent


def memory(pald: Pald) -> bool:
    assert pald.process is not None
    family = [pald.process.pid, *below(pald.process.pid)]
    held = [rss_mb(pid) for pid in family]
    own = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{family[0]}/status").read_text())
    assert own
    peak = int(own[1]) / 1000
    beside = ", ".join(f"{mb:.0f} MB" for mb in held[1:]) or "nothing"
    show("memory of pald, peak", f"{peak:.0f} MB", f"promised {RSS_MB} MB; beside it {beside}")
    return peak <= RSS_MB


def pinned(pald: Pald, cluster: Minicluster) -> bool:
    """A job that fits into a hole, behind all those that don't."""
    pald.wait_cycle(within=600)
    before = count(pald)
    job = cluster.submit("--gres=gpu:1", "-t", "5", "--comment=app:resnet", wrap="sleep 1")
    wait_for(lambda: bool(pald.intents(job, EditKind.PIN)), f"a pin of job {job}", 900)
    cycles = count(pald) - before
    show("cycles until a new pin", f"{cycles}", f"promised {CYCLES}")
    return cycles <= CYCLES


def submitting(pald: Pald, cluster: Minicluster, rounds: int = 8, each: int = 25) -> bool:
    """Turn by turn, so that what else the machine does slows both."""
    assert pald.process is not None
    took: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for running in (True, False):
            family = [pald.process.pid, *below(pald.process.pid)]
            for pid in family:
                os.kill(pid, signal.SIGCONT if running else signal.SIGSTOP)
            for _ in range(each):
                began = time.monotonic()
                cluster.submit("--gres=gpu:4", "-t", "60", "--comment=app:bert", wrap="sleep 1")
                took[running].append(time.monotonic() - began)
            for pid in family:
                os.kill(pid, signal.SIGCONT)
    ours, without = (1000 * statistics.median(took[running]) for running in (True, False))
    told = f"promised {TIMES_WITHOUT:.2f}; medians of {rounds * each}: {ours:.0f} ms against {without:.0f} ms"
    show("a submission", f"{ours / without:.2f} x without", told)
    return ours / without <= TIMES_WITHOUT


def count(pald: Pald) -> int:
    """Cycles so far."""
    return len(re.findall(r"(?m)^<\d>\d+ pending", pald.said()))


if __name__ == "__main__":
    sys.exit(main())
