"""What it costs a real slurmctld that pald keeps many leases.

    python -m benchmarks.bench_leases [--release 26.05] [--nodes 2000] [--pending 3000] [--at-once 64 1000 3000]
                                      [--rates 0 20 95] [--seconds 60] [--shares 0.1 0]

Starts a mini-cluster of its own whose nodes have no slurmd of their own, with waiting jobs under leases, and renews all
leases through each backend, so many between two looks at their jobs. Per renewal: wall time, CPU time of slurmctld, of
munged, and of ours (the commands or the worker included), and what slurmctld itself counts for the update alone.
Then so many are renewed each second, in one bulk every ten: what slurmctld takes of a core all in all. At last pald
itself keeps them, as it is shipped but for budget.keep_share and leases of a minute at most, so that as many are due
each second as of ten times as many jobs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.model import EditKind, Outcome, Renew
from pal_slurm.slurm.edits.apply import Hands, apply
from pal_slurm.slurm.port import Slurm, unbounded
from tests.slurm.backends import backend_of
from tests.slurm.large import asked, few_nodes, hold, scores, spent
from tests.slurm.measured import below, shipped
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
    parser.add_argument("--shares", type=float, nargs="*", default=[0.1, 0.0])
    options = parser.parse_args(argv)
    sets = ("MaxJobCount=200000", "SchedulerParameters=disable_job_shrink,defer")
    words = [word for setting in sets for word in ("--set", setting)]
    cluster = Minicluster.up(
        f"leases{os.getpid()}", options.release, "--nodes", "2", "--gpus", "4", "--hollow", str(options.nodes), *words
    )
    try:
        Alive(cluster.dir / "run" / "pald.alive", lease_s=600).beat(time.time() + 300)
        hold(cluster, options.nodes)
        with few_nodes(cluster, options.nodes):
            fill(cluster, asked(options.pending), submitters=2)
        for backend in ("pyslurm", "cli") if options.release == "26.05" else ("cli",):
            with backend_of(cluster, backend, deadline_s=60.0) as slurm:
                for at_once in options.at_once:
                    measure(cluster, slurm, backend, at_once)
                for rate in options.rates:
                    steady(cluster, slurm, backend, rate, options.seconds)
        for share in options.shares:
            keeping(cluster, options.nodes, share, options.seconds)
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


def keeping(cluster: Minicluster, nodes: int, share: float, seconds: float) -> None:
    """All leases end soon after pald was started; then it is to keep them."""
    with tempfile.TemporaryDirectory() as directory, shipped(cluster, Path(directory)) as pald:
        pald.configure({"lease.max_s": 60, "budget.edits_per_s": 20, "budget.keep_share": share})
        scores(pald, cluster, nodes)
        with backend_of(cluster, "cli", deadline_s=60.0) as slurm:
            ends = [Renew(job.id, until=int(time.time()) + 60) for job in slurm.snapshot().pending]
            apply(ends, cast(Hands, slurm), 1000, unbounded)
        cpu, begun = cpu_s(cluster.pid("slurmctld")), time.time()
        pald.start()
        time.sleep(seconds + 60)
        renewed = [i for i in pald.ledger() if i.edit.kind is EditKind.RENEW and i.written_at > begun + 60]
        took = time.time() - begun
        leased = re.findall(r"(\d+) pending, (\d+) leased", pald.said())[-1]
        told = f"{len(renewed) / (took - 60):.0f} renewed each second"
        spent_s = cpu_s(cluster.pid("slurmctld")) - cpu
        print(f"pald, keep_share {share}: after {took:.0f} s {leased[1]} of {leased[0]} leased, {told}, ", end="")
        print(f"slurmctld takes {spent_s / took:.1%} of a core", flush=True)


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
