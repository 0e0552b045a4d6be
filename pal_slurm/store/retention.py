"""Forgetting. In: how long each kind of row is kept, the time. Out: old rows removed, some at a time.

Lease renewals are the bulk of the ledger (up to 90 a second, where 50,000 jobs wait) and are worth nothing when the
next one of their job stands. Runs are the bulk of everything; their nights and scores stay. Between two transactions
others get their turn to write.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Table, delete, func, select, true, tuple_

from pal_slurm.model import OperationKind
from pal_slurm.store.engine import Store
from pal_slurm.store.learned import JOB, SHOWN
from pal_slurm.store.pairs import user_pairs
from pal_slurm.store.tables import decisions, job_samples, metadata, operations, outcomes, runs, state, user_apps
from pal_slurm.store.votes import votes

RENEWALS_S = 7_200.0
SOME = 5_000  # rows per transaction: some tens of milliseconds
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Keep:
    books_s: float  # operations with their steps, decisions, outcomes, what jobs showed
    runs_s: float


@dataclass(frozen=True, slots=True)
class Rule:
    table: Table
    what: str
    kept_s: float
    old: ColumnElement[bool]

    @property
    def tables(self) -> set[str]:
        """Those that lose rows: its own, and those whose rows go with it."""
        going = {
            key.parent.table.name
            for table in metadata.tables.values()
            for key in table.foreign_keys
            if key.column.table is self.table and key.ondelete == "CASCADE"
        }
        return {self.table.name} | going


def rules(keep: Keep, now: float, cluster: str | None = None) -> list[Rule]:
    """What is old. `cluster`: of the books of that one only."""
    books, renewals = keep.books_s, min(keep.books_s, RENEWALS_S)
    before = now - books
    renewal = operations.c.kind == OperationKind.RENEW.value
    mine = {
        table: true() if cluster is None else table.c.cluster == cluster for table in (operations, decisions, outcomes)
    }
    closed = mine[operations] & operations.c.closed.is_(True)
    return [
        Rule(operations, "closed renewals", renewals, closed & renewal & (operations.c.begun_at < now - renewals)),
        Rule(operations, "closed operations", books, closed & ~renewal & (operations.c.begun_at < before)),
        Rule(decisions, "last decisions", books, mine[decisions] & (decisions.c.decided_at < before)),
        Rule(outcomes, "jobs that ended", books, mine[outcomes] & (outcomes.c.end < before)),
        Rule(job_samples, "what jobs showed", books, job_samples.c.ended_at < before),
        Rule(votes, "what users' jobs said of GPUs", books, votes.c.heard_at < before),
        Rule(user_apps, "users' applications", books, user_apps.c.seen_at < before),
        Rule(user_pairs, "what users' jobs showed beside others", books, user_pairs.c.seen_at < before),
        Rule(state, "jobs' own pace", books, state.c.key.like(f"{JOB}%") & (state.c.written_at < before)),
        Rule(
            state,
            "classes that users' jobs showed",
            books,
            state.c.key.like(f"{SHOWN}%") & (state.c.written_at < before),
        ),
        Rule(runs, "raw runs", keep.runs_s, runs.c.night < int((now - keep.runs_s) // _DAY_S)),  # whole nights
    ]


def count(store: Store, rule: Rule) -> int:
    with store.reading() as db:
        return int(db.execute(select(func.count()).select_from(rule.table).where(rule.old)).scalar_one())


def sweep(
    store: Store,
    rule: Rule,
    tell: Callable[[int], None] = lambda rows: None,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Remove what is old, `SOME` rows per transaction; how many. Others get as much time to write as this takes."""
    keys, removed = list(rule.table.primary_key), 0
    while True:
        begun = time.monotonic()
        with store.writing() as db:
            found = db.execute(select(*keys).where(rule.old).limit(SOME)).all()
            if found:
                # By primary key: no database needs to look for the rows twice, and the old may have become new
                wanted = keys[0].in_([row[0] for row in found]) if len(keys) == 1 else tuple_(*keys).in_(found)
                removed += int(db.execute(delete(rule.table).where(wanted, rule.old)).rowcount)
        tell(removed)
        if len(found) < SOME:
            return removed
        pause(min(1.0, time.monotonic() - begun))
