"""pald on the largest sites: a real slurmctld with 10,000 nodes and 50,000 pending jobs.

    python -m benchmarks.size [--release 26.05] [--nodes 10000] [--pending 50000] [--submitters 4] [--turns 8]

Starts a mini-cluster of its own whose nodes have no slurmd of their own (`minicluster up --hollow`), gives three of
four GPUs on each to jobs that stay, submits as many jobs of two to four GPUs as asked for, starts pald, and then
measures: memory, the share of slurmctld's time that reading takes, how many cycles pass before a new job that fits has
its pin, and what a submission takes while pald runs and while it is stopped, turn by turn. Exit 1 when a promise is
not kept.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.model import EditKind
from tests.slurm.large import asked, few_nodes, hold, scores, spent
from tests.slurm.measured import below, rss_mb, shipped, show
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald
from tests.slurm.submissions import compare, fill

RSS_MB = 512
READ_SHARE = 0.05
CYCLES = 2
TIMES_WITHOUT = 1.10


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="pald on the largest sites.")
    parser.add_argument("--release", choices=("26.05", "24.11"), default="26.05")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pending", type=int, default=50_000)
    parser.add_argument("--submitters", type=int, default=4)
    parser.add_argument("--turns", type=int, default=8, help="of submissions, with pald and without (8; 0: none)")
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
            pald.configure({"cluster.timeout_s": 60, "cycle.max_age_s": 60})
            scores(pald, cluster, options.nodes)
            with leasing(pald):
                with few_nodes(cluster, options.nodes):
                    fill(cluster, asked(options.pending), options.submitters)
                pald.start()
            told = cluster.client("sinfo", "-h", "-o", "%D nodes %T", timeout=120).strip().replace("\n", ", ")
            print(f"{told}; {options.pending} submitted after {time.monotonic() - begun:.0f} s", flush=True)
            kept = [reading(pald, cluster), memory(pald), pinned(pald, cluster)]
            if options.turns:
                kept.append(submitting(pald, cluster, options.turns))
            return 0 if all(kept) else 1
    finally:
        cluster.down()


@contextmanager
def leasing(pald: Pald) -> Iterator[None]:
    """What job_submit.lua sees of a pald, before there is one: the longest lease lasts until it is there."""
    alive, over = Alive(pald.alive, lease_s=600), threading.Event()

    def live() -> None:
        while not over.is_set():
            alive.beat(time.time())
            over.wait(10.0)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def reading(pald: Pald, cluster: Minicluster, seconds: float = 300.0) -> bool:
    """Renewed leases are read again, so it is measured when they fall due.

    Not in the first minute: looks come apart step by step, and what those have cost too much is paid back later.
    """
    pald.wait_cycle(within=600)
    time.sleep(60.0)
    pald.wait_cycle(within=600)
    before, cycles, began = spent(cluster), count(pald), time.monotonic()
    time.sleep(seconds)
    pald.wait_cycle(within=600)
    after, took = spent(cluster), time.monotonic() - began
    waiting = len(cluster.client("squeue", "-h", "-t", "PD", "-o", "%i", timeout=120).split())
    leased = re.findall(r"(?m)^<\d>\d+ pending, (\d+) leased", pald.said())
    print(f"{waiting} pending, {leased[-1]} leased, {count(pald) - cycles} cycles in {took:.0f} s")
    print("of slurmctld's time, by its own count:")
    total = 0.0
    for name, (number, us) in sorted(after.items()):
        was = before.get(name, (0, 0))
        times, share = number - was[0], (us - was[1]) / 1e6 / took
        if times and share >= 0.0005:
            show(f"  {name.removeprefix('REQUEST_').lower()}", f"{share:.1%}", f"{times} times")
        total += share if "INFO" in name else 0.0
    show("all that is read", f"{total:.1%}", f"promised {READ_SHARE:.0%}")
    return total <= READ_SHARE


def memory(pald: Pald) -> bool:
    assert pald.process is not None
    held = []
    for pid in below(pald.process.pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # a command that has answered
            held.append(rss_mb(pid))
    own = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pald.process.pid}/status").read_text())
    assert own
    peak = int(own[1]) / 1000
    beside = ", ".join(f"{mb:.0f} MB" for mb in held) or "nothing"
    show("memory of pald, peak", f"{peak:.0f} MB", f"promised {RSS_MB} MB; beside it {beside}")
    return peak <= RSS_MB


def pinned(pald: Pald, cluster: Minicluster) -> bool:
    """A job that fits into a hole, behind all those that don't."""
    pald.wait_cycle(within=600)
    before = count(pald)
    job = cluster.submit("--gres=gpu:1", "-t", "5", "--comment=app:resnet", wrap="sleep 1")
    pald.wait_said(r"pinned [1-9]", within=900)
    cycles, pins = count(pald) - before, pald.intents(job, EditKind.PIN)
    show("cycles until a new pin", f"{cycles}", f"promised {CYCLES}; its pin: {pins[0].outcome if pins else 'none'}")
    return bool(pins) and cycles <= CYCLES


def submitting(pald: Pald, cluster: Minicluster, turns: int) -> bool:
    made = compare(pald, cluster, lambda: spent(cluster), turns, each=50, every_s=0.5)
    ours, without = made.median_ms(True), made.median_ms(False)
    told = f"promised {TIMES_WITHOUT:.2f}; medians of {25 * turns}: {ours:.0f} ms against {without:.0f} ms"
    show("a submission", f"{made.ratio:.2f} x without", told)
    pairs, own = " ".join(f"{ratio:.2f}" for ratio in made.ratios), (made.own_ms(True), made.own_ms(False))
    print(f"  by pairs of turns: {pairs}; slurmctld's own time in the mean {own[0]:.1f} ms against {own[1]:.1f} ms")
    return made.ratio <= TIMES_WITHOUT


def count(pald: Pald) -> int:
    """Cycles so far."""
    return len(re.findall(r"(?m)^<\d>\d+ pending", pald.said()))


if __name__ == "__main__":
    sys.exit(main())
