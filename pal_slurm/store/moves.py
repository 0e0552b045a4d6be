"""Moves of running jobs: a row per operation that moves or stops one. In: Move. Out: open ones, a job's, a time's.

The row is written with the first step, in one transaction (ledger.py), and again whenever something of it is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, Connection, ForeignKey, Index, Select, bindparam, insert, select, update

from pal_slurm.model import Move
from pal_slurm.store.engine import Store
from pal_slurm.store.fields import Json, Real, WholeNumber, Words
from pal_slurm.store.tables import Id, new_table, operations

moves = new_table(
    "moves",
    Column("operation", Id, ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("cluster", Words(64), nullable=False),
    Column("job", WholeNumber(), nullable=False),
    Column("user", Words(64), nullable=False),
    Column("app", Words(64)),
    Column("began_at", Real(), nullable=False),
    Column("ended_at", Real()),  # null: it goes on
    Column("ending", Words(16)),
    Column("move", Json(Move), nullable=False),  # all of it
    Index(None, "cluster", "began_at"),
    Index(None, "cluster", "ended_at"),
)
_BEGAN, _AFTER = bindparam("began", type_=Real()), bindparam("after", type_=WholeNumber())


def begun(db: Connection, cluster: str, move: Move, operation: int) -> Move:
    """In the transaction that writes its first step."""
    move = replace(move, operation=operation)
    db.execute(insert(moves).values(_row(move) | {"operation": operation, "cluster": cluster}))
    return move


def _row(move: Move) -> dict[str, object]:
    found: dict[str, object] = {"job": move.job, "user": move.user, "app": move.app, "began_at": move.began_at}
    ending = None if move.ending is None else move.ending.value
    return found | {"ended_at": move.ended_at, "ending": ending, "move": move}


class MoveRepo:
    """The moves of one cluster."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._mine = moves.c.cluster == cluster
        # Asked in each cycle: made once
        self._open, self._since = self._those(moves.c.ended_at.is_(None)), self._those(moves.c.began_at >= _BEGAN)
        self._after = self._those(moves.c.operation > _AFTER)

    def keep(self, changed: Sequence[Move]) -> None:
        """What is known of these now; with an ending their operations are closed."""
        if not changed:
            return
        self._store.put_each(changed, self._put, lambda move: f"the move of job {move.job}")

    def _put(self, db: Connection, move: Move) -> None:
        db.execute(update(moves).where(self._mine, moves.c.operation == move.operation).values(_row(move)))
        if move.ending is not None:
            db.execute(update(operations).where(operations.c.id == move.operation).values(closed=True))

    def open(self) -> list[Move]:
        """Those that go on, oldest first."""
        return self._find(self._open)

    def since(self, began: float) -> list[Move]:
        return self._find(self._since, began=began)

    def after(self, operation: int) -> list[Move]:
        """Those that were begun after that one, oldest first."""
        return self._find(self._after, after=operation)

    def of_job(self, job: int) -> list[Move]:
        return self._find(self._those(moves.c.job == job))

    def _those(self, condition: Any) -> Select[Any]:
        return select(moves.c.move).where(self._mine, condition).order_by(moves.c.operation)

    def _find(self, query: Select[Any], **given: float) -> list[Move]:
        with self._store.reading() as db:
            return list(db.execute(query, given).scalars())
