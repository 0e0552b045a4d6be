"""Who may write to Slurm, where several hosts share one database (P6). In: owner, time. Out: a fence, or NotLeader.

The fence grows each time that the leadership changes hands. It stands in each intent, and the ledger refuses a smaller
one than the newest: a leader that was paused past its time finds out before its next edit. Whether a term is over is
not told by anybody's wall clock: `expires` is for people to read, and for others to see that the row was written anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, insert, select, update

from pal_slurm.errors import NotLeader
from pal_slurm.store.engine import Store
from pal_slurm.store.tables import leader, operations, steps

RESIGNED = 0.0  # stands in `expires` then


@dataclass(frozen=True, slots=True)
class Term:
    """One leadership."""

    owner: str
    fence: int
    expires: float


class Leadership:
    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        mine = leader.c.cluster == cluster
        # Asked in each cycle: made once
        self._now, self._take = select(leader).where(mine).with_for_update(), update(leader).where(mine)
        ours = (leader.c.owner == bindparam("b_owner"), leader.c.fence == bindparam("b_fence"))
        self._prolong = update(leader).where(mine, *ours)

    def acquire(
        self,
        owner: str,
        now: float,
        ttl_s: float,
        mine: Term | None = None,
        left_s: Callable[[Term], float] = lambda held: 1.0,
    ) -> Term:
        """Take the leadership, or prolong our own term `mine`; NotLeader names who has it.

        Whoever takes it, also the same owner after his time ran out, gets a new fence. `left_s`: for how long another's
        term may still last, as far as the asker knows; 0 and less: it is over.
        """
        with self._store.writing() as db:
            if mine is not None and self._prolonged(db, mine, owner, now + ttl_s):
                return Term(owner, mine.fence, now + ttl_s)
            held = self._held(db, self._now)
            if held is None:
                return self._first(db, owner, now + ttl_s)
            if held.expires != RESIGNED and (left := left_s(held)) > 0:
                raise NotLeader(
                    f"{held.owner} leads for another {left:.0f} s at most (fence {held.fence}); standing by"
                )
            term = Term(owner, held.fence + 1, now + ttl_s)
            db.execute(self._take, {"owner": term.owner, "fence": term.fence, "expires": term.expires})
            return term

    def release(self, term: Term) -> None:
        """Let another take over at once; the fence stays, for it only ever grows."""
        with self._store.writing() as db:
            mine = (leader.c.cluster == self._cluster) & (leader.c.fence == term.fence) & (leader.c.owner == term.owner)
            db.execute(update(leader).where(mine).values(expires=RESIGNED))

    def current(self) -> Term | None:
        with self._store.reading() as db:
            return self._held(db, select(leader).where(leader.c.cluster == self._cluster))

    def _prolonged(self, db: Connection, mine: Term, owner: str, expires: float) -> bool:
        """Whether the row was still ours: then it is written anew, and nothing else is asked."""
        values = {"b_owner": mine.owner, "b_fence": mine.fence, "owner": owner, "expires": expires}
        return bool(db.execute(self._prolong, values).rowcount)

    def _first(self, db: Connection, owner: str, expires: float) -> Term:
        """No row yet, or it was lost; a lost one must not let an old fence look new."""
        newest = select(func.max(steps.c.fence)).join(operations).where(operations.c.cluster == self._cluster)
        term = Term(owner, (db.execute(newest).scalar() or 0) + 1, expires)
        row = {"cluster": self._cluster, "owner": owner, "fence": term.fence, "expires": expires}
        db.execute(insert(leader).values(row))
        return term

    def _held(self, db: Connection, query: Select[Any]) -> Term | None:
        row = db.execute(query).first()
        return None if row is None else Term(row.owner, row.fence, row.expires)
