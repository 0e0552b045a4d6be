"""Records what Slurm's commands print, for tests/unit/test_cli_parsing.py.

    python -m tests.golden.capture_cli 22.05 24.11 26.05

Run by hand when a release is added or a column changes; it needs the mini-clusters. Only lines that the parsers read
are kept of `show config`: the rest holds paths of the machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pal_slurm.slurm.commands.cluster import QUESTIONS
from pal_slurm.slurm.commands.columns import layout
from pal_slurm.slurm.commands.read import QueueReader
from pal_slurm.slurm.commands.run import Commands
from tests.slurm.minicluster import Minicluster

HERE = Path(__file__).parent / "cli"
KEYS = ("ClusterName", "SchedulerParameters", "PriorityFlags", "JobSubmitPlugins", "SLURM_VERSION")
JOBS = (
    ("--gres=gpu:2", "-c2", "--comment=app:resnet"),
    ("-N1-3", "-n4", "--gpus=4", "--mem-per-cpu=300", "-x", "n3"),
    ("-N2", "--gpus-per-node=2", "--mem=500", "-t", "1-02:03:04"),
    ("-n2", "--gpus-per-task=1", "-C", "a100&rack1"),
    ("-a", "1-3,7%2", "--gpus=1"),
    ("--exclusive", "--gpus=1", "--comment=a\nJobId=1 app:x"),
)


def main(releases: list[str]) -> None:
    for release in releases:
        cluster = Minicluster.up(f"golden{os.getpid()}", release, "--nodes", "3", "--gpus", "4", "--rack-size", "2")
        try:
            capture(cluster, HERE / release)
        finally:
            cluster.down()


def capture(cluster: Minicluster, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    running = cluster.submit("-N2", "-w", "n1,n2", "--gres=gpu:2", "-t", "60")
    cluster.wait_state(running, "RUNNING")
    for options in JOBS:
        cluster.submit("--begin=2040-01-01", *options)
    cluster.drain("n3")
    cluster.client(
        "scontrol", "create", "reservation", "ReservationName=night", "StartTime=2040-01-01", "Duration=60",
        "Nodes=n3", "Flags=MAINT", "Users=root",
    )  # fmt: skip
    commands = Commands(cluster.bin)
    available = QueueReader(commands).columns()
    of = layout(available)
    (to / "columns").write_text(of.option + "\n")
    (to / "queue").write_bytes(commands.read("squeue", ("-h", "-a", "-r", "-O", of.option)))
    for question, answer in zip(
        (*QUESTIONS, "show job"), commands.show((*QUESTIONS, f"show job {running}")), strict=True
    ):
        (to / question.replace(" ", "-")).write_bytes(
            b"".join(plain(line) for line in answer.splitlines(keepends=True))
        )
    (to / "sdiag").write_bytes(commands.read("sdiag", ()))
    config = commands.read("scontrol", ("show", "config")).decode().splitlines(keepends=True)
    (to / "show-config").write_text("".join(line for line in config if line.startswith(KEYS)))


def plain(line: bytes) -> bytes:
    """A line without what tells of the machine, and without scontrol's echo of the question."""
    if line.startswith(b"scontrol:"):
        return b""
    hidden = (b"Command=", b"WorkDir=", b"StdErr=", b"StdIn=", b"StdOut=", b"OS=", b"Version=", b"SubmitLine=", b"Sid=")
    return b" ".join(word for word in line.split(b" ") if not word.startswith(hidden))


if __name__ == "__main__":
    main(sys.argv[1:])
