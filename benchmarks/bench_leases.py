"""What it costs a real slurmctld that pald keeps many leases.

    python -m benchmarks.bench_leases [--release 26.05] [--nodes 2000] [--pending 3000] [--at-once 64 1000 3000]
                                      [--rates 0 20 95] [--seconds 60]

Starts a mini-cluster of its own whose nodes have no slurmd of their own, with waiting jobs under leases, and renews all
leases through each backend, so many between two looks at their jobs. Per renewal: wall time, CPU time of slurmctld, of
munged, and of ours (the commands or the worker included), and what slurmctld itself counts for the update alone.
Then so many are renewed each second, in one bulk every ten: what slurmctld takes of a core all in all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.model import Outcome, Renew
from pal_slurm.slurm.edits.apply import Hands, apply
from pal_slurm.slurm.port import Slurm, unbounded
from tests.slurm.backends import backend_of
from tests.slurm.large import asked, few_nodes, spent
from tests.slurm.measured import below
from tests.slurm.minicluster import Minicluster
from tests.slurm.submissions import fill

TICKS = os.sysconf("SC_CLK_TCK")
UPDATE = "REQUEST_UPDATE_JOB"
EVERY_S = 10


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What keeping leases costs slurmctld.")
    parser.add_argument("--release", choices=("26.05", "24.11"), default="26.05")
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pending", type=int, default=3000)
    parser.add_argument("--at-once", type=int, nargs="+", default=[64, 1000, 3000])
    parser.add_argument("--rates", type=int, nargs="*", default=[0, 20, 95])
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(argv)
    sets = ("MaxJobCount=200000", "SchedulerParameters=disable_job_shrink,defer")
    words = [word for setting in sets for word in ("--set", setting)]
    cluster = Minicluster.up(
        f"leases{os.getpid()}", options.release, "--nodes", "2", "--gpus", "4", "--hollow", str(options.nodes), *words
    )
    try:
        Alive(cluster.dir / "run" / "pald.alive", lease_s=600).beat(time.time())
        with few_nodes(cluster, options.nodes):
            fill(cluster, asked(options.pending), submitters=2)
        for backend in ("pyslurm", "cli") if options.release == "26.05" else ("cli",):
            with backend_of(cluster, backend, deadline_s=60.0) as slurm:
                for at_once in options.at_once:
                    measure(cluster, slurm, backend, at_once)
                for rate in options.rates:
                    steady(cluster, slurm, backend, rate, options.seconds)
        return 0
    finally:
        cluster.down()


def measure(cluster: Minicluster, slurm: Slurm, backend: str, at_once: int) -> None:
    jobs = slurm.snapshot().pending
    edits = [Renew(job.id, until=int(time.time()) + 7200, seen=job) for job in jobs]
    daemons = [cluster.pid("slurmctld"), *_munged()]
    before, cpu, told = ours(), [cpu_s(pid) for pid in daemons], spent(cluster).get(UPDATE, (0, 0))
    began = time.monotonic()
    results = apply(edits, cast(Hands, slurm), at_once, unbounded)
    took, after = time.monotonic() - began, [cpu_s(pid) for pid in daemons]
    own, (count, us) = ours() - before, spent(cluster).get(UPDATE, (0, 0))
    good = sum(result.outcome is Outcome.DONE for result in results)
    each = [1000 * seconds / len(edits) for seconds in (took, after[0] - cpu[0], sum(after[1:]) - sum(cpu[1:]), own)]
    update = (us - told[1]) / 1000 / max(1, count - told[0])
    print(f"{backend} {at_once} at once: {good} of {len(edits)} renewed, {len(edits) / took:.0f}/s", flush=True)
    names = ("wall", "CPU of slurmctld", "of munged", "of ours")
    print("  each: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in zip(names, each, strict=True)), end="; ")
    print(f"the update by slurmctld's count {update:.3f} ms", flush=True)


def steady(cluster: Minicluster, slurm: Slurm, backend: str, rate: int, seconds: float) -> None:
    jobs = slurm.snapshot().pending
    begun, cpu, passes, done = time.monotonic(), cpu_s(cluster.pid("slurmctld")), slurm.passes(), 0
    while (now := time.monotonic()) < begun + seconds:
        some = [jobs[(done + i) % len(jobs)] for i in range(min(len(jobs), EVERY_S * rate))]
        apply([Renew(job.id, until=int(time.time()) + 7200) for job in some], cast(Hands, slurm), 1000, unbounded)
        done += len(some)
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - now)))
    took, main = time.monotonic() - begun, slurm.passes().main - passes.main
    share = (cpu_s(cluster.pid("slurmctld")) - cpu) / took
    print(f"{backend} {done / took:.0f} a second: slurmctld takes {share:.1%} of a core, ", end="")
    print(f"{main} main passes in {took:.0f} s", flush=True)


def ours() -> float:
    """CPU seconds of this process, and of all that it started."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system + sum(map(cpu_s, below(os.getpid())))


def cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _munged() -> list[int]:
    return [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/comm") if p.read_text().strip() == "munged"]


if __name__ == "__main__":
    sys.exit(main())
