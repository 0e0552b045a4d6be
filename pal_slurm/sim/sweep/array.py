"""A sweep as one Slurm job array. In: the command of one share, Slurm's commands. Out: a job id; how many still work.

Each task does every n-th world. A task whose node dies is requeued by Slurm and finds what it had finished.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from pal_slurm.errors import SlurmRefused, SlurmUnavailable
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.words import digits, printable

NAME = "pal-sweep"


def submit(commands: Commands, share: Sequence[str], tasks: int, log: Path, options: Sequence[str]) -> int:
    """`share`: the command of a task; its number follows. One CPU each, no GPU."""
    script = f'#!/bin/sh\nexec {shlex.join(share)} "$SLURM_ARRAY_TASK_ID/{tasks}"\n'
    words = [
        "--parsable", f"--job-name={NAME}", f"--array=0-{tasks - 1}", "--ntasks=1", "--requeue", "--open-mode=append",
        f"--output={log}", "--input=/dev/null", f"--chdir={Path.cwd()}", *options,
    ]  # fmt: skip
    answer = commands.ask("sbatch", words, script.encode())
    if answer.code != 0:
        raise SlurmRefused(f"sbatch: {printable(answer.err) or f'exit status {answer.code}'}")
    number = answer.out.split(b";")[0].strip()
    if not digits(number):
        raise SlurmUnavailable(f"sbatch answered {printable(answer.out)!r} instead of a job id")
    return int(number)


def still_there(commands: Commands, job: int) -> bool:
    """Whether a task of it waits or runs."""
    answer = commands.ask("squeue", ["-h", "-j", str(job), "-o", "%i"])
    return answer.code == 0 and bool(answer.out.strip())
