"""Submissions to a real slurmctld, many or measured. In: a mini-cluster, a pald. Out: jobs; what pald adds to each.

With pald and without are turns of one run (ABBA), so that what else the machine does meets both. Without: pald and
all that it started are stopped, and job_submit.lua does nothing. What was submitted in a turn is cancelled after it.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.slurm.measured import below
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald, plain

Ask = tuple[int, int, str]  # GPUs, minutes, application
Spent = Callable[[], dict[str, tuple[int, int]]]  # how often slurmctld was sent each message, and its microseconds
SOURCE = Path(__file__).with_name("submit.c")
SUBMIT = "REQUEST_SUBMIT_BATCH_JOB"
WITH_FIRST = (True, False, False, True)


def build(cluster: Minicluster) -> Path:
    """submit.c for the release of this cluster."""
    run = cluster.dir / "run"
    shutil.copy(SOURCE, run)
    cluster.client("gcc", "-O1", "-Wall", "-o", str(run / "submit"), str(run / SOURCE.name), "-lslurm")
    return run / "submit"


def fill(cluster: Minicluster, jobs: Sequence[Ask], submitters: int) -> None:
    """Submit all of them, several at a time.

    The clients read a slurm.conf without nodes: reading all of them takes six times as long as asking.
    """
    short, program = cluster.etc / "client.conf", build(cluster)
    lines = (cluster.etc / "slurm.conf").read_text().splitlines()
    short.write_text("\n".join(line for line in lines if not line.startswith(("NodeName=", "PartitionName="))) + "\n")
    command = [str(cluster.bin / "in-cluster"), "env", f"SLURM_CONF={short}", str(program)]
    parts = []
    for i in range(submitters):
        asked = cluster.dir / "run" / f"submit{i}"
        asked.write_text("".join(f"{gpus} {minutes} app:{app}\n" for gpus, minutes, app in jobs[i::submitters]))
        with asked.open("rb") as lines_in:
            parts.append(subprocess.Popen(command, stdin=lines_in, stdout=subprocess.DEVNULL, cwd="/tmp"))
    if any(part.wait() for part in parts):
        sys.exit("size: a submission failed")


@dataclass
class Turn:
    """What the submissions of one turn took."""

    running: bool
    took_s: list[float] = field(default_factory=list)  # of each, as its user waits for it
    own_ms: float = 0.0  # of slurmctld for one in the mean, by its own count: with its waits for locks


@dataclass
class Compared:
    turns: list[Turn]

    def median_ms(self, running: bool) -> float:
        return 1000 * statistics.median(took for turn in self.turns if turn.running is running for took in turn.took_s)

    def own_ms(self, running: bool) -> float:
        return statistics.mean(turn.own_ms for turn in self.turns if turn.running is running)

    @property
    def ratio(self) -> float:
        return self.median_ms(True) / self.median_ms(False)

    @property
    def ratios(self) -> list[float]:
        """Of each turn with pald and one without beside it, from the least."""
        pairs = zip(self.turns[::2], self.turns[1::2], strict=True)
        medians = [{turn.running: statistics.median(turn.took_s) for turn in pair} for pair in pairs]
        return sorted(of[True] / of[False] for of in medians)


def compare(pald: Pald, cluster: Minicluster, spent: Spent, turns: int, each: int, every_s: float) -> Compared:
    """One submission every so many seconds: pald goes through its cycles in a turn as it does at any other time."""
    found = []
    for number in range(turns):
        running = WITH_FIRST[number % len(WITH_FIRST)]
        with nullcontext() if running else away(pald, cluster):
            found.append(_turn(cluster, spent, running, each, every_s))
    return Compared(found)


def _turn(cluster: Minicluster, spent: Spent, running: bool, each: int, every_s: float) -> Turn:
    turn, jobs, before = Turn(running), [], spent()
    for _ in range(each):
        began = time.monotonic()
        jobs.append(cluster.submit("--gres=gpu:4", "-t", "60", "--comment=app:bert", wrap="sleep 1"))
        turn.took_s.append(time.monotonic() - began)
        time.sleep(max(0.0, began + every_s - time.monotonic()))
    (many, us), (had, was) = spent()[SUBMIT], before[SUBMIT]
    turn.own_ms = (us - was) / (many - had) / 1000
    cluster.client("scancel", "-f", *map(str, jobs), timeout=120)
    return turn


@contextmanager
def away(pald: Pald, cluster: Minicluster) -> Iterator[None]:
    """Without pald and job_submit.lua. It is stopped at the end of a cycle, and has one to itself after that."""
    assert pald.process is not None
    pald.mark()
    pald.wait_said(r"\d+ pending", within=900)
    family = [pald.process.pid, *below(pald.process.pid)]
    tell(family, signal.SIGSTOP)
    try:
        with plain(cluster):
            yield
    finally:
        tell(family, signal.SIGCONT)
    pald.wait_cycle(within=900)


def tell(family: Sequence[int], number: signal.Signals) -> None:
    for pid in family:
        with suppress(ProcessLookupError):  # a command that has answered
            os.kill(pid, number)
