"""Writing to Slurm through pyslurm. In: one update. Out: what slurmctld said of it, and the job as re-read.

update   {"target": "12_3", "job": 12, "task": 3, "begin": 0, "texts": {...}, "numbers": {...}}
outcome  {"errno": 0, "said": "", "row": [...] or null, "reread": true, "unread": ""}
"""

from __future__ import annotations

import errno
import time
from typing import Any

from . import read
from .link import Args

NO_SUCH_JOB = 2017
AGAIN_S = 0.02


def apply(pyslurm: Any, update: Args) -> dict[str, object]:
    outcome: dict[str, object] = {"errno": 0, "said": "", "row": None, "reread": False, "unread": ""}
    numbers = dict(update["numbers"])
    # "Now" is filled in here, by the clock of the machine that talks to slurmctld.
    numbers["begin_time"] = update["begin"] or int(time.time())
    try:
        refused = _update(pyslurm, update["target"], update["texts"], numbers)
        if refused:
            outcome["errno"] = refused[0][1]
            outcome["said"] = "; ".join(f"{what}: {words}" for what, _, words in refused)
    except pyslurm.RPCError as error:
        outcome["errno"], outcome["said"] = error.errno, str(error)
    try:
        _reread(pyslurm, update, outcome)
    except pyslurm.RPCError as error:
        outcome["reread"] = error.errno == NO_SUCH_JOB
        outcome["said"] = outcome["said"] or str(error)
    return outcome


def _update(pyslurm: Any, target: str, texts: dict[str, str], numbers: dict[str, int]) -> list[tuple[str, int, str]]:
    try:
        refused: list[tuple[str, int, str]] = pyslurm.Job.update_fields(target, texts, numbers)
    except pyslurm.RPCError as error:
        # slurmctld says EAGAIN now and then to an update of the partition where there is no slurmdbd.
        if error.errno != errno.EAGAIN:
            raise
        time.sleep(AGAIN_S)
        refused = pyslurm.Job.update_fields(target, texts, numbers)
    return refused


def _reread(pyslurm: Any, update: Args, outcome: dict[str, object]) -> None:
    unread: list[str] = []
    for row in read.job_rows(_meant(pyslurm.Job.load_records(update["job"]), update), unread):
        outcome["row"] = row
    outcome["reread"] = True
    outcome["unread"] = "".join(unread)


def _meant(records: list[Any], update: Args) -> list[Any]:
    """The record that was edited; for a task that was not split off after all, the one that still holds it."""
    if update["task"] is None:
        return [job for job in records if job.id == update["job"]]
    own = [job for job in records if job.array_task == update["task"]]
    return own or [job for job in records if job.array_task is None]
