"""Who may write to Slurm, where several hosts share one database (P6). In: owner, time. Out: a fence, or NotLeader.

The fence grows each time that the leadership changes hands. It stands in each intent, and the ledger refuses a smaller
one than the newest: a leader that was paused past its time finds out before its next edit. Hosts' clocks may differ by
much less than the time to live; a clock that is wrong costs availability, never two writers.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Update, insert, select, update

from pal_slurm.errors import NotLeader
from pal_slurm.store.engine import Store
from pal_slurm.store.tables import intents, leader


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

    def acquire(self, owner: str, now: float, ttl_s: float) -> Term:
        """Take the leadership; NotLeader names who has it.

        The same owner gets it at once, and a new fence: what is left of its former self is shut out. Two on one host
        are kept apart by the lock file.
        """
        with self._store.writing() as db:
            held = self._held(db)
            if held is None:
                # A leader row that was lost must not let an old fence look new
                last = db.execute(select(intents.c.fence).order_by(intents.c.fence.desc()).limit(1)).scalar() or 0
                term = Term(owner, last + 1, now + ttl_s)
                row = {"cluster": self._cluster, "owner": owner, "fence": term.fence, "expires": term.expires}
                db.execute(insert(leader).values(row))
                return term
            far_ahead = held.expires > now + 10 * ttl_s  # written by a clock that was wrong
            if held.owner != owner and held.expires > now and not far_ahead:
                left = held.expires - now
                raise NotLeader(
                    f"{held.owner} leads for another {left:.0f} s at most (fence {held.fence}); standing by"
                )
            term = Term(owner, held.fence + 1, now + ttl_s)
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
            return self._held(db)

    def _held(self, db: Connection) -> Term | None:
        query = select(leader).where(leader.c.cluster == self._cluster).with_for_update()
        row = db.execute(query).first()
        return None if row is None else Term(row.owner, row.fence, row.expires)

    def _set(self, term: Term) -> Update:
        return (
            update(leader)
            .where(leader.c.cluster == self._cluster)
            .values(owner=term.owner, fence=term.fence, expires=term.expires)
        )
