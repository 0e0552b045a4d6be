"""Sends updates through scontrol, signals through scancel. In: edits that are ready. Out: slurmctld's words on each.

All updates go down the standard input of one scontrol. Before each stands a word that scontrol does not know and so
repeats on stderr: what it says between two of them belongs to one update. Nothing of a job's own texts is ever sent,
but its original request, whose characters edits/rewrite.py has checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from pal_slurm.model import fence_of
from pal_slurm.slurm.commands.bound import MOST_STARTS
from pal_slurm.slurm.commands.columns import Layout, rows
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.edits.apply import Heard
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.edits.rewrite import NOW
from pal_slurm.words import digits, printable

BATCH = 1000  # edits per scontrol at most: the read before each batch is never more than a few seconds ago
EACH_S = 0.05  # what one update may take, beside the deadline of the call
SIGNAL_S = 5.0
_FIELDS = {
    "nodes": "ReqNodeList",
    "excluded": "ExcNodeList",
    "partition": "Partition",
    "tres_per_node": "TresPerNode",
    "tres_per_job": "TresPerJob",
    "tres_per_task": "TresPerTask",
    "tres_per_socket": "TresPerSocket",
}


def send(commands: Commands, ready: Sequence[Ready]) -> list[Heard]:
    updates = [item for item in ready if not item.asked.signal]
    heard = iter(_update(commands, updates) if updates else ())
    return [_signal(commands, item) if item.asked.signal else next(heard) for item in ready]


def _signal(commands: Commands, ready: Ready) -> Heard:
    """scancel tries for a minute where a job has just begun to end: it gets a moment."""
    who = ["--batch"] if ready.asked.to_script else []
    answer = commands.run("scancel", (*who, f"--signal={ready.asked.signal}", ready.target), deadline_s=SIGNAL_S)
    said = printable(answer.err)
    return Heard(said or ("" if answer.code == 0 else f"exit status {answer.code}"), not answer.timed_out)


def _update(commands: Commands, ready: Sequence[Ready]) -> list[Heard]:
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


def started_often(commands: Commands, ready: Sequence[Ready]) -> dict[int, Heard]:
    """Of those whose records don't tell it: whom Slurm would soon requeue no more, but hold. In: edits that requeue."""
    ids = [item.before.id for item in ready if item.before.batch is None]
    if not ids:
        return {}
    columns = Layout((("JobId", 12), ("ArrayTaskId", 24), ("BatchFlag", 4)))
    out = commands.read("squeue", ("-h", "-a", "-r", f"-j{','.join(map(str, ids))}", "-O", columns.option))
    flags = {int(row.get("JobId")): row.get("BatchFlag") for row in rows(out, columns)}
    often = {number: flag for number, flag in flags.items() if not digits(flag) or not 1 <= int(flag) <= MOST_STARTS}
    return {number: Heard(f"Slurm counts {flag} starts of it and may hold it soon") for number, flag in often.items()}


def fence_line(ready: Ready) -> str:
    """A reservation that keeps everybody out who does not run there yet, whatever else is reserved."""
    asked = ready.asked
    when = f"StartTime=now EndTime=uts{asked.begin}"
    who = f"ReservationName={fence_of(ready.before.id)} {when} Users=root Nodes={','.join(asked.fence)}"
    return f"create reservation {who} Flags=IGNORE_JOBS,OVERLAP"


def lift(commands: Commands, jobs: Sequence[int]) -> None:
    """Delete the fences of these jobs; one that has ended meanwhile is gone."""
    lines = "".join(f"delete ReservationName={fence_of(job)}\n" for job in jobs)
    commands.ask("scontrol", (), lines.encode("ascii"))


def update_line(ready: Ready) -> str:
    """What scontrol is told to make this edit. `incomplete`: a job that has ended meanwhile is not run again."""
    asked = ready.asked
    if asked.fence:
        return fence_line(ready)
    first = f"requeue incomplete {ready.target}\n" if asked.requeue else ""
    parts = [f"{first}update JobId={ready.target}"]
    parts += [f"{_FIELDS[name]}={text}" for name, text in asked.texts.items()]
    if asked.min_nodes is not None:
        parts.append(f"NumNodes={asked.min_nodes}-{asked.max_nodes}")
    if asked.nice is not None:
        parts.append(f"Nice={asked.nice}")
    if asked.begin is not None:
        parts.append("StartTime=now" if asked.begin == NOW else f"StartTime=uts{asked.begin}")
    return " ".join(parts)
