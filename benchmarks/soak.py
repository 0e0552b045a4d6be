"""Does pald grow? A real Slurm at work for hours, and what pald holds of the machine each minute.

    python -m benchmarks.soak [--release 26.05] [--minutes 120] [--rate 5] [--table FILE.csv]

Starts a mini-cluster of its own (16 nodes x 4 fake GPUs) with pald as it is shipped, submits short jobs of one to four
GPUs at the rate asked for, and looks once a minute: memory, descriptors and threads of pald and its worker, the
database and its write-ahead log. Exit 1 when one of them grew after the first eighth of the time (15 minutes of two
hours), or when a job did not run just once.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.slurm.measured import below, rss_mb, shipped
from tests.slurm.minicluster import RELEASES, Minicluster
from tests.slurm.pald import Pald

GROWN = 1.10  # the median of the last quarter, over that of the second eighth
APPS = ("resnet", "bert", "gpt", "dlrm")


@dataclass(frozen=True, slots=True)
class Minute:
    """What pald and its worker hold, one minute."""

    minute: int
    jobs: int  # submitted so far
    waiting: int
    rss_mb: float
    descriptors: int
    threads: int
    wal_mb: float
    database_mb: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Does pald grow?")
    parser.add_argument("--release", choices=tuple(RELEASES), default="26.05")
    parser.add_argument("--minutes", type=int, default=120, help="16 or more")
    parser.add_argument("--rate", type=float, default=5.0, help="jobs a second")
    parser.add_argument("--table", type=Path, help="a line of CSV per minute, as it goes")
    options = parser.parse_args(argv)
    if options.minutes < 16:
        parser.error("--minutes: what grows can't be told from fewer than 16")
    cluster = Minicluster.up(f"soak{os.getpid()}", options.release, "--nodes", "16", "--gpus", "4")
    try:
        with tempfile.TemporaryDirectory() as directory, shipped(cluster, Path(directory)) as pald:
            pald.start()
            jobs = Jobs(cluster, options.rate)
            seen = list(watch(pald, jobs, options.minutes, options.table))
            jobs.stop()
            return judge(seen, jobs)
    finally:
        cluster.down()


class Jobs:
    """Submits from a thread, as evenly as the machine lets it. Each job writes its id as it ends."""

    def __init__(self, cluster: Minicluster, rate: float) -> None:
        self.cluster, self.rate = cluster, rate
        self.submitted, self.refused = 0, 0
        self.done = cluster.dir / "run" / "done"
        self.done.touch()
        self._script = cluster.dir / "run" / "work"
        self._script.write_text(f'#!/bin/sh\nsleep "$1"\necho $SLURM_JOB_ID >> {self.done}\n')
        self._script.chmod(0o755)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._submit, daemon=True)
        self._thread.start()

    def _submit(self) -> None:
        draw, began = random.Random(1), time.monotonic()
        while not self._over.is_set():
            gpus, seconds = draw.choice((1, 1, 1, 1, 2, 2, 4)), draw.randint(1, 10)
            words = ["-t", "1", f"--gres=gpu:{gpus}", f"--comment=app:{draw.choice(APPS)}"]
            done = self.cluster.run("sbatch", "-Q", "-o", "/dev/null", *words, str(self._script), str(seconds))
            self.submitted += done.returncode == 0
            self.refused += done.returncode != 0
            self._over.wait(max(0.0, began + (self.submitted + self.refused) / self.rate - time.monotonic()))

    def stop(self) -> None:
        """No more come; back when the queue is empty."""
        self._over.set()
        self._thread.join()
        while self.waiting() + len(self.cluster.client("squeue", "-h", "-o", "%i").split()):
            time.sleep(1)

    def waiting(self) -> int:
        return len(self.cluster.client("squeue", "-h", "-t", "PD", "-o", "%i").split())


def watch(pald: Pald, jobs: Jobs, minutes: int, table: Path | None) -> Iterator[Minute]:
    began = time.monotonic()
    names = [field.name for field in fields(Minute)]
    print("  ".join(f"{name:>11}" for name in names))
    with (table or Path(os.devnull)).open("w") as file:
        lines = csv.DictWriter(file, names)
        lines.writeheader()
        for minute in range(1, minutes + 1):
            time.sleep(max(0.0, began + 60 * minute - time.monotonic()))
            now = look(pald, jobs, minute)
            lines.writerow(asdict(now))
            file.flush()
            if minute % max(1, minutes // 24) == 0:
                print("  ".join(f"{value:>11}" for value in asdict(now).values()), flush=True)
            yield now


def look(pald: Pald, jobs: Jobs, minute: int) -> Minute:
    assert pald.process is not None and pald.process.poll() is None, "pald has ended"
    pids = [pald.process.pid, *below(pald.process.pid)]
    family = [Path(f"/proc/{pid}") for pid in pids]
    return Minute(
        minute=minute,
        jobs=jobs.submitted,
        waiting=jobs.waiting(),
        rss_mb=round(sum(map(rss_mb, pids)), 1),
        descriptors=sum(len(list((p / "fd").iterdir())) for p in family),
        threads=sum(len(list((p / "task").iterdir())) for p in family),
        wal_mb=size_mb(pald.database.with_name(pald.database.name + "-wal")),
        database_mb=size_mb(pald.database),
    )


def size_mb(path: Path) -> float:
    return round(path.stat().st_size / 1e6, 2) if path.exists() else 0.0


def judge(seen: list[Minute], jobs: Jobs) -> int:
    eighth = max(1, len(seen) // 8)
    early, late = seen[eighth : 2 * eighth], seen[-2 * eighth :]
    kept = True
    for name in ("rss_mb", "descriptors", "threads", "wal_mb"):
        first, last = (statistics.median(getattr(m, name) for m in part) for part in (early, late))
        grown = last / first if first else 1.0
        kept &= grown <= GROWN
        print(f"{name:<28} {first:>9.1f} -> {last:>9.1f}   {grown:.2f} x, at most {GROWN:.2f}")
    rates = [per_job(part) for part in (seen[eighth : len(seen) // 2], seen[len(seen) // 2 :])]
    kept &= rates[1] <= GROWN * rates[0]
    print(f"{'database, kB a job':<28} {rates[0]:>9.2f} -> {rates[1]:>9.2f}   {rates[1] / rates[0]:.2f} x")
    ids = jobs.done.read_text().split()
    twice = len(ids) - len(set(ids))
    once = not twice and len(ids) == jobs.submitted
    print(f"{jobs.submitted} jobs submitted, {jobs.refused} refused, {len(set(ids))} ran, {twice} of them twice")
    return 0 if kept and once else 1


def per_job(part: list[Minute]) -> float:
    """How many kB of the database a job takes."""
    return 1000 * (part[-1].database_mb - part[0].database_mb) / max(1, part[-1].jobs - part[0].jobs)


if __name__ == "__main__":
    sys.exit(main())
