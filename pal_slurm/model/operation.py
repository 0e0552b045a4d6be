"""What we mean to bring about in one job, as the ledger keeps it (P3). In: Edits. Out: Intent.

An operation is an ordered list of steps, each of them one edit. An intent is one step, written down before the edit is
made; the newest intent of an operation is the step that it is at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pal_slurm.model.edit import Edit, EditKind, Outcome
from pal_slurm.model.move import Move
from pal_slurm.model.placement import Decision


class OperationKind(StrEnum):
    START = "start"
    RENEW = "renew"
    LEASE = "lease"
    GIVE_BACK = "give-back"  # its request as it was
    EXCLUDE = "exclude"
    INCLUDE = "include"
    MOVE = "move"
    STOP = "stop"


Steps = tuple[EditKind, ...]

KIND_OF: Mapping[EditKind, OperationKind] = {
    EditKind.PIN: OperationKind.START,
    EditKind.PLAIN: OperationKind.START,
    EditKind.RENEW: OperationKind.RENEW,
    EditKind.LEASE: OperationKind.LEASE,
    EditKind.UNPIN: OperationKind.GIVE_BACK,
    EditKind.EXCLUDE: OperationKind.EXCLUDE,
    EditKind.INCLUDE: OperationKind.INCLUDE,
}
"""Operations of one step."""

STEPS: Mapping[OperationKind, Steps] = {
    OperationKind.MOVE: (
        EditKind.FENCE,
        EditKind.WARN,
        EditKind.REQUEUE,
        EditKind.RENEW,
        EditKind.PIN,
        EditKind.RENICE,
    ),
    OperationKind.STOP: (EditKind.FENCE, EditKind.WARN, EditKind.REQUEUE, EditKind.RENEW),
}
"""Operations of several, as they go where nothing goes wrong; a step may be made again, or another one instead.

What each needs, and why in this order: docs/decisions/0015-operations.md.
"""


@dataclass(frozen=True, slots=True)
class Intent:
    id: int
    submit: int  # with edit.job: one job for ever, also when job ids come round again
    edit: Edit
    fence: int  # the leadership under which it was written
    written_at: float
    outcome: Outcome | None = None  # None: open, nobody knows yet
    said: str = ""
    outcome_at: float | None = None
    decision: Decision | None = None
    passes_main: int = 0  # Slurm's own scheduling passes before it was sent: "did not start" is judged by these
    passes_backfill: int = 0
    closed: bool = False  # of its operation: nothing is left to watch, the job runs, is gone, or was let go
    operation: int = 0  # 0: it begins one
    kind: OperationKind | None = None  # of the operation; none: what this edit alone is
    cause: str = ""  # of the operation, where its decision does not tell: why a request is given back
    plan: Steps = ()  # all steps of the operation; none: this edit alone
    step: int = 0  # which of them this is; of a move: how many there were before
    move: Move | None = None  # of which it is a step

    @property
    def last(self) -> bool:
        """Nothing comes after this step."""
        return self.step + 1 >= len(self.plan)


@dataclass(frozen=True, slots=True)
class NotBegun:
    """An operation that was refused before its first step: no edit was made."""

    job: int
    submit: int
    kind: OperationKind
    said: str
    at: float
    decision: Decision | None = None
