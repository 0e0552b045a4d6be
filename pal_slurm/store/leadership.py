"""Who may write to Slurm, where several hosts share one database (P6). In: owner, time. Out: a fence, or NotLeader.

The fence grows each time that the leadership changes hands. It stands in each intent, and the ledger refuses a smaller
one than the newest: a leader that was paused past its time finds out before its next edit. Hosts' clocks may differ by
much less than the time to live; a clock that is wrong costs availability, never two writers.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Update, func, insert, select, update

from pal_slurm.errors import NotLeader
from pal_slurm.store.engine import Store
from pal_slurm.store.tables import leader, operations, steps


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

    def acquire(self, owner: str, now: float, ttl_s: float, *, dead: str = "") -> Term:
        """Take the leadership, or prolong our own; NotLeader names who has it.

        Whoever takes it, also the same owner after its time ran out, gets a new fence. `dead`: an owner whose name
        begins so is known to be gone (its lock file is ours now), so nobody waits for its time to run out.
        """
        with self._store.writing() as db:
            held = self._held(db)
            if held is None:
                return self._first(db, owner, now + ttl_s)
            over = held.expires <= now or held.expires > now + 10 * ttl_s  # the second: set by a clock that was wrong
            over = over or bool(dead and held.owner != owner and held.owner.startswith(dead))
            if held.owner != owner and not over:
                left = held.expires - now
                raise NotLeader(
                    f"{held.owner} leads for another {left:.0f} s at most (fence {held.fence}); standing by"
                )
            term = Term(owner, held.fence + 1 if over else held.fence, now + ttl_s)
            db.execute(self._set(term))
            return term

    def renew(self, term: Term, now: float, ttl_s: float) -> Term:
        """Prolong our own term; NotLeader when it has gone to another, or ran out and we can't know."""
        with self._store.writing() as db:
            held = self._held(db)
            if held is None or held.fence != term.fence or held.owner != term.owner:
                who = "nobody" if held is None else f"{held.owner} (fence {held.fence})"
                raise NotLeader(f"the leadership of fence {term.fence} is over; {who} has it now")
            renewed = Term(term.owner, term.fence, now + ttl_s)
            db.execute(self._set(renewed))
            return renewed

    def release(self, term: Term) -> None:
        """Let another take over at once; the fence stays, for it only ever grows."""
        with self._store.writing() as db:
            mine = (leader.c.cluster == self._cluster) & (leader.c.fence == term.fence) & (leader.c.owner == term.owner)
            db.execute(update(leader).where(mine).values(expires=0.0))

    def current(self) -> Term | None:
        with self._store.reading() as db:
            return self._held(db, lock=False)

    def _first(self, db: Connection, owner: str, expires: float) -> Term:
        """No row yet, or it was lost; a lost one must not let an old fence look new."""
        newest = select(func.max(steps.c.fence)).join(operations).where(operations.c.cluster == self._cluster)
        term = Term(owner, (db.execute(newest).scalar() or 0) + 1, expires)
        row = {"cluster": self._cluster, "owner": owner, "fence": term.fence, "expires": expires}
        db.execute(insert(leader).values(row))
        return term

    def _held(self, db: Connection, lock: bool = True) -> Term | None:
        query = select(leader).where(leader.c.cluster == self._cluster)
        row = db.execute(query.with_for_update() if lock else query).first()
        return None if row is None else Term(row.owner, row.fence, row.expires)

    def _set(self, term: Term) -> Update:
        return (
            update(leader)
            .where(leader.c.cluster == self._cluster)
            .values(owner=term.owner, fence=term.fence, expires=term.expires)
        )
