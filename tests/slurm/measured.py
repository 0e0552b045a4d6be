"""What pald costs, for benchmarks on a real Slurm: how it is started, what it and slurmctld spend."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald

PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


def shipped(cluster: Minicluster, home: Path) -> Pald:
    """pald as it is shipped, but for where things are; its unit's CPUWeight=20 is a nice of 7 for its own session."""
    settings = {"cycle.interval_s": 5, "budget.read_share": 0.05, "lease.let_through": True}
    pald = Pald(cluster, home, {**settings, "budget.edits_per_s": 200})
    pald.world = ["sh", "-c", 'echo 7 >/proc/self/autogroup; exec "$0" "$@"']
    return pald


def rpc_us(cluster: Minicluster) -> int:
    """Time that slurmctld spent on RPCs of root: here these are pald's, and the nodes' own."""
    text = cluster.client("sdiag")
    user = text.partition("statistics by user")[2]
    return next(int(line.rpartition("total_time:")[2]) for line in user.splitlines() if line.split()[:1] == ["root"])


def below(pid: int) -> list[int]:
    """Its children and theirs."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    own = [int(word) for word in found.stdout.split()]
    return [*own, *(deeper for child in own for deeper in below(child))]


def rss_mb(pid: int) -> float:
    """The memory that it holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MB


def show(what: str, figure: str, told: str) -> None:
    print(f"{what:<24} {figure:>14}   {told}", flush=True)
