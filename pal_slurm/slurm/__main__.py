"""Prints the queue with its tags, alike through both backends. In: options. Out: a table or JSON, or one sentence.

python -m pal_slurm.slurm [--backend cli] [--bin DIR] [--json]
python -m pal_slurm.slurm --backend pyslurm --python 'PREFIX/bin/python' [--json]
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from pal_slurm.errors import PalError
from pal_slurm.model import Job, Request
from pal_slurm.slurm.commands.backend import CliSlurm
from pal_slurm.slurm.edits.prepare import fold_tasks
from pal_slurm.slurm.nodeset import expand, fold
from pal_slurm.slurm.port import Slurm
from pal_slurm.slurm.pyslurm.backend import PyslurmSlurm


class CheckedLine(TypedDict):
    job: str
    state: str
    app: str
    lease: int | None  # when it ends; None: the job has none
    nodes: str  # where it runs, or which nodes it is bound to
    gpus: list[list[int]]  # device indices per node, while it runs
    request: str


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    try:
        slurm = _backend(options)
        try:
            snapshot = slurm.snapshot()
        finally:
            slurm.close()
    except PalError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    lines = [_line(job) for job in (*snapshot.running, *snapshot.pending)]
    if options.json:
        told = {
            "jobs": lines,
            "dropped_hints": snapshot.dropped_hints,
            "unread": [*snapshot.unread, *snapshot.too_long],
        }
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
        return 0
    sys.stdout.write(_table(lines))
    if snapshot.dropped_hints:
        sys.stdout.write(f"{snapshot.dropped_hints} comments can't be trusted: no tag was taken from them\n")
    for sentence in (*snapshot.unread, *snapshot.too_long):
        sys.stdout.write(f"not read: {sentence}\n")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pal_slurm.slurm", description="The queue with its tags.")
    parser.add_argument("--backend", choices=("cli", "pyslurm"), default="cli")
    parser.add_argument("--bin", type=Path, help="cli: the directory of squeue and scontrol (default: on PATH)")
    parser.add_argument(
        "--python", default=sys.executable, help="pyslurm: the interpreter, or a command that starts it"
    )
    parser.add_argument("--conf", help="pyslurm: the slurm.conf (default: Slurm's own search)")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


def _backend(options: argparse.Namespace) -> Slurm:
    if options.backend == "cli":
        return CliSlurm(options.bin)
    return PyslurmSlurm(shlex.split(options.python), conf=options.conf)


def _line(job: Job) -> CheckedLine:
    return {
        "job": job_name(job),
        "state": job.state.value,
        "app": job.hint.app or "",
        "lease": job.eligible if job.lease and job.pending else None,
        "nodes": fold(job.nodes) if job.nodes else fold(expand(job.required_nodes)),
        "gpus": [list(indices) for indices in job.gpus],
        "request": request_text(job.request),
    }


def job_name(job: Job) -> str:
    """As squeue names it: `12`, `12_3`, `12_[4-9]`."""
    if job.array_id is None:
        return str(job.id)
    if job.array_task is not None:
        return f"{job.array_id}_{job.array_task}"
    return f"{job.array_id}_[{fold_tasks(job.array_tasks)}]"


def request_text(request: Request) -> str:
    least, most = request.min_nodes, request.max_nodes
    parts = [f"nodes={least}" if most in (0, least) else f"nodes={least}-{most}"]
    for name in ("per_node", "per_job", "per_task", "per_socket"):
        if text := getattr(request, name):
            parts.append(f"{name}={text}")
    return " ".join(parts)


def _table(lines: Sequence[CheckedLine]) -> str:
    rows = [("JOB", "STATE", "APP", "LEASE", "NODES", "REQUEST")]
    for line in lines:
        lease = "-" if line["lease"] is None else time.strftime("%H:%M:%S", time.localtime(line["lease"]))
        devices = " ".join(",".join(map(str, indices)) for indices in line["gpus"])
        nodes = f"{line['nodes']} ({devices})" if devices.strip() else line["nodes"]
        rows.append((line["job"], line["state"], line["app"] or "-", lease, nodes or "-", line["request"]))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]) + "\n"
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
