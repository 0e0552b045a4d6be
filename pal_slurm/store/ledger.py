"""The ledger: every edit of ours, on disk before it is made (P3). In: intents, outcomes. Out: what is still open.

Order of use: `write` (one transaction, refused to a leader that was replaced), then the edit, then `outcome`. Killed
anywhere in between, `watched` still names the intent, and the next cycle judges it by what Slurm shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, func, insert, select, update

from pal_slurm.errors import NotLeader
from pal_slurm.model import Decision, Edit, EditKind, Intent, JobKey, Outcome, Request
from pal_slurm.store.engine import Store
from pal_slurm.store.jsontext import dump, load
from pal_slurm.store.state import first_use
from pal_slurm.store.tables import intents, leader

MAX_SAID = 1000
T = TypeVar("T")


class Ledger:
    """The intents of one cluster."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster

    def write(self, planned: Sequence[Intent]) -> list[Intent]:
        """Put intents (their `id` is not looked at) on disk; the same ones with their ids."""
        if not planned:
            return []
        with self._store.writing() as db:
            self._refuse_old_leader(db, min(intent.fence for intent in planned))
            ids = [db.execute(insert(intents).values(self._values(i))).inserted_primary_key for i in planned]
        return [replace(i, id=int(pk[0])) for i, pk in zip(planned, ids, strict=True) if pk is not None]

    def outcome(self, judged: Iterable[tuple[int, Outcome, str]], now: float, *, close: bool = False) -> None:
        """What became of intents, by id. An outcome that is known stays; UNKNOWN may be replaced once."""
        with self._store.writing() as db:
            for intent_id, outcome, said in judged:
                db.execute(
                    update(intents)
                    .where(self._mine(intent_id))
                    .where(intents.c.outcome.is_(None) | (intents.c.outcome == Outcome.UNKNOWN.value))
                    .values(outcome=outcome.value, said=said[:MAX_SAID], outcome_at=now)
                )
                if close:
                    db.execute(update(intents).where(self._mine(intent_id)).values(closed=True))

    def close(self, ids: Iterable[int]) -> None:
        """Nothing is left to watch for these."""
        wanted = list(ids)
        if not wanted:
            return
        with self._store.writing() as db:
            for part in _chunks(wanted):
                mine = (intents.c.cluster == self._cluster) & intents.c.id.in_(part)
                db.execute(update(intents).where(mine).values(closed=True))

    def since(self, now: float) -> float:
        """When this ledger was begun: of older edits it knows nothing."""
        return first_use(self._store, f"ledger:{self._cluster}", now)

    def watched(self) -> list[Intent]:
        """Not closed, oldest first: open intents, and pins that have not started."""
        query = select(intents).where(intents.c.cluster == self._cluster, intents.c.closed.is_(False))
        with self._store.reading() as db:
            return [_intent(row) for row in db.execute(query.order_by(intents.c.id))]

    def open(self) -> list[Intent]:
        """Written, and nobody knows yet whether they were carried out."""
        return [i for i in self.watched() if i.outcome in (None, Outcome.UNKNOWN)]

    def of_job(self, job: int) -> list[Intent]:
        """All that was ever meant for a job id, oldest first."""
        query = select(intents).where(intents.c.cluster == self._cluster, intents.c.job == job)
        with self._store.reading() as db:
            return [_intent(row) for row in db.execute(query.order_by(intents.c.id))]

    def newest(self, most: int = 100, *, kinds: Sequence[EditKind] = tuple(EditKind)) -> list[Intent]:
        """The last `most` intents of these kinds, newest first."""
        query = (
            select(intents)
            .where(intents.c.cluster == self._cluster, intents.c.kind.in_([k.value for k in kinds]))
            .order_by(intents.c.id.desc())
            .limit(most)
        )
        with self._store.reading() as db:
            return [_intent(row) for row in db.execute(query)]

    def undos(self, keys: Iterable[JobKey]) -> dict[JobKey, int]:
        """How often the pin of each of these jobs was taken back."""
        return {
            key: int(count)
            for key, count in self._per_job(keys, func.count(), intents.c.kind == EditKind.UNPIN.value).items()
        }

    def given_back(self, since: float) -> dict[JobKey, int]:
        """Jobs whose pin was taken back after `since`, and until when each was leased then."""
        query = (
            select(intents.c.job, intents.c.submit, func.max(intents.c.until))
            .where(intents.c.cluster == self._cluster, intents.c.kind == EditKind.UNPIN.value)
            .where(intents.c.until.is_not(None), intents.c.written_at > since)
            .group_by(intents.c.job, intents.c.submit)
        )
        with self._store.reading() as db:
            return {(row[0], row[1]): int(row[2]) for row in db.execute(query)}

    def lease_ends(self, keys: Iterable[JobKey]) -> dict[JobKey, int]:
        """The latest lease end that was ever written for each of these jobs."""
        found = self._per_job(keys, func.max(intents.c.until), intents.c.until.is_not(None))
        return {key: int(until) for key, until in found.items()}

    def wrote_begin(self, begins: Iterable[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
        """Of these (job, submit time, begin time) those whose begin time is the end of a lease that we wrote."""
        wanted = set(begins)
        found: set[tuple[int, int, int]] = set()
        with self._store.reading() as db:
            for part in _chunks(sorted(wanted), 200):
                query = select(intents.c.job, intents.c.submit, intents.c.until).where(
                    intents.c.cluster == self._cluster,
                    intents.c.job.in_({job for job, _, _ in part}),
                    intents.c.until.in_({until for _, _, until in part}),
                )
                found |= {(row[0], row[1], row[2]) for row in db.execute(query)}
        return found & wanted

    def leased_again(self, keys: Iterable[JobKey]) -> dict[JobKey, int]:
        """How often each of these jobs was leased again after its lease had run out."""
        refused = func.coalesce(intents.c.outcome, "") == Outcome.REFUSED.value
        again = (intents.c.kind == EditKind.LEASE.value) & ~refused
        return {key: int(count) for key, count in self._per_job(keys, func.count(), again).items()}

    def _per_job(self, keys: Iterable[JobKey], figure: Any, condition: Any) -> Mapping[JobKey, Any]:
        wanted = set(keys)
        result: dict[JobKey, Any] = {}
        with self._store.reading() as db:
            for part in _chunks(sorted({job for job, _ in wanted})):
                query = (
                    select(intents.c.job, intents.c.submit, figure)
                    .where(intents.c.cluster == self._cluster, intents.c.job.in_(part), condition)
                    .group_by(intents.c.job, intents.c.submit)
                )
                result |= {(r[0], r[1]): r[2] for r in db.execute(query) if (r[0], r[1]) in wanted}
        return result

    def _refuse_old_leader(self, db: Connection, fence: int) -> None:
        # Locked until this is written: nobody takes over between the look and the commit
        query = select(leader.c.fence, leader.c.owner).where(leader.c.cluster == self._cluster).with_for_update()
        newest = db.execute(query).first()
        if newest is not None and newest.fence > fence:
            raise NotLeader(f"{newest.owner} took over (fence {newest.fence}, ours is {fence}); nothing was written")

    def _mine(self, intent_id: int) -> Any:
        return (intents.c.cluster == self._cluster) & (intents.c.id == intent_id)

    def _values(self, intent: Intent) -> dict[str, object]:
        edit, decision = intent.edit, intent.decision
        return {
            "cluster": self._cluster,
            "job": edit.job,
            "submit": intent.submit,
            "task": edit.task,
            "kind": edit.kind.value,
            "nodes": dump(edit.nodes),
            "slots": None if edit.slots is None else dump(edit.slots),
            "until": edit.until,
            "partition": edit.partition,
            "original": None if edit.original is None else dump(edit.original),
            "fence": intent.fence,
            "written_at": intent.written_at,
            "outcome": None if intent.outcome is None else intent.outcome.value,
            "said": intent.said[:MAX_SAID],
            "outcome_at": intent.outcome_at,
            "step_time": decision.step_time if decision else None,
            "slurm_step_time": decision.slurm_step_time if decision else None,
            "reason": decision.reason.value if decision else None,
            "decision": None if decision is None else dump(decision),
            "passes_main": intent.passes_main,
            "passes_backfill": intent.passes_backfill,
            "closed": intent.closed,
        }


def _intent(row: Row[Any]) -> Intent:
    edit = Edit(
        job=row.job,
        kind=EditKind(row.kind),
        task=row.task,
        nodes=load(row.nodes, tuple[str, ...]),
        slots=None if row.slots is None else load(row.slots, tuple[int, ...]),
        until=row.until,
        partition=row.partition,
        original=None if row.original is None else load(row.original, Request),
    )
    return Intent(
        id=row.id,
        submit=row.submit,
        edit=edit,
        fence=row.fence,
        written_at=row.written_at,
        outcome=None if row.outcome is None else Outcome(row.outcome),
        said=row.said,
        outcome_at=row.outcome_at,
        decision=None if row.decision is None else load(row.decision, Decision),
        passes_main=row.passes_main,
        passes_backfill=row.passes_backfill,
        closed=row.closed,
    )


def _chunks(values: Sequence[T], size: int = 500) -> Iterable[Sequence[T]]:
    """Databases bound the number of parameters of one statement."""
    return (values[i : i + size] for i in range(0, len(values), size))
