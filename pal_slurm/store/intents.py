"""Intents as rows of the ledger, and back. In: an intent, or a step beside its operation. Out: the other."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from pal_slurm.model import (
    Edit,
    EditKind,
    Exclude,
    Fence,
    Include,
    Intent,
    LeaseAgain,
    OperationKind,
    Outcome,
    Pin,
    Plain,
    Renew,
    Renice,
    Requeue,
    Unpin,
    Warn,
    until,
)
from pal_slurm.store.rows import names, values

# Fields of an intent that are columns of another name or table
NOT_SAME = ("id", "submit", "edit", "outcome", "said", "cause", "decision", "closed", "kind", "plan", "step", "move")


def step_of(intent: Intent) -> dict[str, object]:
    edit = intent.edit
    pin = edit if isinstance(edit, Pin) else Pin(edit.job)
    partition = edit.partition if isinstance(edit, Unpin) else pin.partition
    original = edit.original if isinstance(edit, Pin | Unpin | Requeue) else None
    nice = edit.nice if isinstance(edit, Unpin | Requeue | Renice) else None
    signal = ("B:" * edit.to_script + edit.signal) if isinstance(edit, Warn) else None
    nodes = edit.nodes if isinstance(edit, Fence | Exclude | Unpin) else pin.nodes
    end = edit.until if isinstance(edit, Fence | Renice) else until(edit)
    what = {"kind": edit.kind.value, "nodes": nodes, "slots": pin.slots, "partition": partition, "until": end}
    what |= {"shard": pin.shard or None, "own": (isinstance(edit, Renew | Unpin) and edit.own) or None}
    what |= {"own": edit.anew or None} if isinstance(edit, Renice) else {}
    outcome = None if intent.outcome is None else intent.outcome.value
    told = {"number": intent.step, "outcome": outcome, "said": intent.said}
    return values(intent, *NOT_SAME) | what | told | {"original": original, "nice": nice, "signal": signal}


def intent_of(row: Row[Any]) -> Intent:
    return Intent(
        **{name: getattr(row, name) for name in names(Intent) if name not in NOT_SAME},
        id=row.id,
        submit=row.submit,
        edit=_edit(row),
        outcome=None if row.outcome is None else Outcome(row.outcome),
        said=row.said,
        cause=row.cause,
        decision=row.decision,
        closed=row.closed,
        kind=OperationKind(row.meant),
        plan=row.plan,
        step=row.number,
    )


def _edit(row: Row[Any]) -> Edit:
    match EditKind(row.kind):
        case EditKind.PIN:
            return Pin(row.job, row.task, row.nodes, row.slots, row.partition, row.original, bool(row.shard))
        case EditKind.PLAIN:
            return Plain(row.job, row.task)
        case EditKind.RENEW:
            return Renew(row.job, row.task, until=int(row.until), own=bool(row.own))
        case EditKind.LEASE:
            return LeaseAgain(row.job, row.task, until=int(row.until))
        case EditKind.UNPIN:
            what = (row.until, row.original, row.nice, False, row.nodes, row.partition)
            return Unpin(row.job, row.task, *what, own=bool(row.own))
        case EditKind.EXCLUDE:
            return Exclude(row.job, row.task, row.nodes)
        case EditKind.INCLUDE:
            return Include(row.job, row.task)
        case EditKind.WARN:
            return Warn(row.job, row.task, signal=row.signal.removeprefix("B:"), to_script=row.signal[:2] == "B:")
        case EditKind.REQUEUE:
            return Requeue(row.job, row.task, until=int(row.until), original=row.original, nice=row.nice)
        case EditKind.RENICE:
            return Renice(row.job, row.task, row.until and int(row.until), bool(row.own), nice=int(row.nice))
        case EditKind.FENCE:
            return Fence(row.job, row.task, nodes=row.nodes, until=int(row.until))
