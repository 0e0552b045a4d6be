"""What a job would lose by a requeue. In: ids of running jobs. Out: those that would, and why.

Asked only of the few that are about to be moved: of these things the records of all jobs tell nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.slurm.commands.columns import Layout, rows
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.words import digits

MOST_STARTS = 3  # Slurm's own count, BatchFlag; at the sixth it holds the job
_COLUMNS = Layout(
    (("JobId", 12), ("ArrayTaskId", 24), ("BatchFlag", 4), ("Deadline", 20), ("Licenses", 20), ("BurstBuffer", 20))
)
# Slurm ends a waiting job (DEADLINE) whose whole time limit does not fit before its deadline any more.
_LOSES = {
    "Deadline": "it has a deadline: requeued, it would need its whole time limit before that",
    "Licenses": "it holds licenses, which another job could take while it waits",
    "BurstBuffer": "it has a burst buffer, which is staged out and in again",
}


def bound(commands: Commands, jobs: Sequence[int]) -> dict[int, str]:
    if not jobs:
        return {}
    words = ("-h", "-a", "-r", f"-j{','.join(map(str, jobs))}", "-O", _COLUMNS.option)
    found: dict[int, str] = {}
    for row in rows(commands.read("squeue", words), _COLUMNS):
        number, flag = int(row.get("JobId")), row.get("BatchFlag")
        why = [said for column, said in _LOSES.items() if row.get(column)]
        if not digits(flag) or int(flag) > MOST_STARTS:
            why.append(f"Slurm counts {flag} starts of it and may hold it soon")
        if number in jobs and why:
            found[number] = "; ".join(why)
    return found
