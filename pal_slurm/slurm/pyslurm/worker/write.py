"""Writing to Slurm through pyslurm. In: one update. Out: what slurmctld said of it.

update   {"target": "12_3", "begin": 0, "texts": {...}, "numbers": {...}}
answer   {"errno": 0, "said": "", "sent": false}; without a word about it, it was sent
"""

from __future__ import annotations

import time
from typing import Any

from .link import Args

UNSENT: dict[str, object] = {"errno": 0, "said": "", "sent": False}


def apply(pyslurm: Any, update: Args) -> dict[str, object]:
    numbers = dict(update["numbers"])
    # "Now" is filled in here, by the clock of the machine that talks to slurmctld.
    numbers["begin_time"] = update["begin"] or int(time.time())
    try:
        refused = pyslurm.Job.update_fields(update["target"], update["texts"], numbers)
    except pyslurm.RPCError as error:
        return {"errno": error.errno, "said": str(error)}
    if refused:
        return {"errno": refused[0][1], "said": "; ".join(f"{what}: {words}" for what, _, words in refused)}
    return {"errno": 0, "said": ""}
