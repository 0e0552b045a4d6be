"""Sends updates through scontrol. In: edits that are ready. Out: what slurmctld said of each.

All updates go down the standard input of one scontrol. Before each stands a word that scontrol does not know and so
repeats on stderr: what it says between two of them belongs to one update. Nothing of a job's own texts is ever sent,
but its original request, whose characters edits/rewrite.py has checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.edits.apply import Heard
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.edits.rewrite import NOW
from pal_slurm.words import printable

BATCH = 128  # edits per scontrol: the read before each batch is never long ago
EACH_S = 0.05  # what one update may take, beside the deadline of the call
_FIELDS = {
    "nodes": "ReqNodeList",
    "partition": "Partition",
    "tres_per_node": "TresPerNode",
    "tres_per_job": "TresPerJob",
    "tres_per_task": "TresPerTask",
    "tres_per_socket": "TresPerSocket",
}


def send(commands: Commands, ready: Sequence[Ready]) -> list[Heard]:
    nonce = f"pal{secrets.token_hex(12)}x"
    lines = [f"{nonce}{i}\n{update_line(item)}\n" for i, item in enumerate(ready)]
    script = "".join((*lines, f"{nonce}{len(ready)}\n")).encode("ascii")
    answer = commands.run("scontrol", (), script, commands.deadline_s + EACH_S * len(ready))
    told = answer.err.decode("utf-8", "replace")
    heard = []
    for i in range(len(ready)):
        _, begun, rest = told.partition(f"invalid keyword: {nonce}{i}\n")
        said, ended, _ = rest.partition(f"invalid keyword: {nonce}{i + 1}\n")
        heard.append(Heard(printable(said), bool(begun and ended)))
    return heard


def update_line(ready: Ready) -> str:
    """The one line of scontrol that makes this edit."""
    asked = ready.asked
    parts = [f"update JobId={ready.target}"]
    parts += [f"{_FIELDS[name]}={text}" for name, text in asked.texts.items()]
    if asked.min_nodes is not None:
        parts.append(f"NumNodes={asked.min_nodes}-{asked.max_nodes}")
    parts.append("StartTime=now" if asked.begin == NOW else f"StartTime=uts{asked.begin}")
    return " ".join(parts)
