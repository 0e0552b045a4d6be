"""Runs of jobs, as sacct tells them. In: Slurm's commands, how far back. Out: PastRun, a job's in their order.

slurmdbd keeps an earlier run of a requeued job as a row of its own (`-D`). A site without slurmdbd has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.model import PastRun, RunEnd
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.words import digits

DEADLINE_S = 300.0
_ENDS = {
    "COMPLETED": RunEnd.COMPLETED, "FAILED": RunEnd.FAILED, "OUT_OF_MEMORY": RunEnd.FAILED,
    "REQUEUED": RunEnd.REQUEUED, "PREEMPTED": RunEnd.REQUEUED, "NODE_FAIL": RunEnd.REQUEUED,
}  # fmt: skip


def past_runs(commands: Commands, days: int) -> list[PastRun]:
    """SlurmUnavailable where nobody keeps them."""
    words = ("-a", "-X", "-D", "-n", "-P", "-S", f"now-{days}days", "-o", "JobIDRaw,User,State,ElapsedRaw")
    return list(read_runs(commands.read("sacct", words, deadline_s=DEADLINE_S)))


def read_runs(answer: bytes) -> Iterator[PastRun]:
    """What can't be read, and what still runs, is passed over."""
    for line in answer.decode("utf-8", "replace").splitlines():
        fields = line.split("|")
        if len(fields) != 4:
            continue
        job, user, state, seconds = fields
        if digits(job) and digits(seconds) and user and state not in ("RUNNING", "PENDING", "SUSPENDED"):
            # "CANCELLED by 1000"
            yield PastRun(int(job), user, float(seconds), _ENDS.get(state.partition(" ")[0], RunEnd.OTHER))
