"""Writing to Slurm through pyslurm. In: one update. Out: what slurmctld said of it.

update   {"target": "12_3", "begin": 0, "texts": {...}, "numbers": {...}}
answer   {"errno": 0, "said": ""}
"""

from __future__ import annotations

import errno
import time
from typing import Any

from .link import Args

AGAIN_S = (0.02, 0.05, 0.1, 0.2, 0.4)


def apply(pyslurm: Any, update: Args) -> dict[str, object]:
    numbers = dict(update["numbers"])
    # "Now" is filled in here, by the clock of the machine that talks to slurmctld.
    numbers["begin_time"] = update["begin"] or int(time.time())
    try:
        refused = _update(pyslurm, update["target"], update["texts"], numbers)
    except pyslurm.RPCError as error:
        return {"errno": error.errno, "said": str(error)}
    if refused:
        return {"errno": refused[0][1], "said": "; ".join(f"{what}: {words}" for what, _, words in refused)}
    return {"errno": 0, "said": ""}


def _update(pyslurm: Any, target: str, texts: dict[str, str], numbers: dict[str, int]) -> list[tuple[str, int, str]]:
    # slurmctld says EAGAIN now and then to an update of the partition where there is no slurmdbd.
    for pause in AGAIN_S:
        try:
            refused: list[tuple[str, int, str]] = pyslurm.Job.update_fields(target, texts, numbers)
            return refused
        except pyslurm.RPCError as error:
            if error.errno != errno.EAGAIN:
                raise
        time.sleep(pause)
    last: list[tuple[str, int, str]] = pyslurm.Job.update_fields(target, texts, numbers)
    return last
