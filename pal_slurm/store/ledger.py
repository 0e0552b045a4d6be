"""The ledger: every operation of ours, each step on disk before it is made (P3). In: intents. Out: what is still open.

Order of use: `write` (one transaction, refused to a leader that was replaced), then the edit, then `outcome`. Killed
anywhere in between, `watched` still names the intent, and the next cycle judges it by what Slurm shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, Table, bindparam, func, insert, select, true, update

from pal_slurm.errors import NotLeader
from pal_slurm.model import KIND_OF, STEPS, Edit, EditKind, Intent, JobRef, NotBegun, OperationKind, Outcome
from pal_slurm.store.engine import Store
from pal_slurm.store.fields import WholeNumber
from pal_slurm.store.intents import intent_of, step_of
from pal_slurm.store.moves import begun
from pal_slurm.store.rows import chunks
from pal_slurm.store.state import first_use
from pal_slurm.store.tables import leader, operations, steps

_OF = operations.c
_JOBS, _BEGINS = (bindparam(name, type_=WholeNumber(), expanding=True) for name in ("jobs", "begins"))
_LEASED = steps.c.until.is_not(None) & steps.c.own.is_not(true())  # a begin time that is the end of a lease of ours
_INTENTS = select(
    steps, _OF.job, _OF.submit, _OF.task, _OF.kind.label("meant"), _OF.said.label("cause"), _OF.plan, _OF.decision,
    _OF.closed,
).join(operations)  # fmt: skip


class Ledger:
    """The operations of one cluster."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._mine = _OF.cluster == cluster
        self._began: float | None = None
        # Asked in each cycle: made once
        at = (_OF.closed.is_(False), steps.c.number == _OF.step)
        self._watched = _INTENTS.where(*at, self._mine).order_by(steps.c.id)
        mine = select(_OF.id).where(self._mine, _OF.id == bindparam("b_of")).scalar_subquery()
        nobody_knows = steps.c.outcome.is_(None) | (steps.c.outcome == Outcome.UNKNOWN.value)
        self._became = update(steps).where(steps.c.id == bindparam("b_step"), steps.c.operation == mine, nobody_knows)
        self._close = update(operations).where(self._mine, _OF.id == bindparam("b_of")).values(closed=True)
        self._undos = self._per_job(func.count(), steps.c.kind == EditKind.UNPIN.value)
        self._begins = select(_OF.job, _OF.submit, steps.c.until).select_from(steps).join(operations).where(
            self._mine, _OF.job.in_(_JOBS), steps.c.until.in_(_BEGINS), _LEASED
        )  # fmt: skip
        self._leader = select(leader.c.fence, leader.c.owner).where(leader.c.cluster == cluster).with_for_update()

    def write(self, planned: Sequence[Intent]) -> list[Intent]:
        """Put intents (their `id` is not looked at) on disk; the same ones with their ids. An id of 0: that one can't
        be written, and its edit must not be made."""
        if not planned:
            return []
        fence = min(intent.fence for intent in planned)
        written = self._store.put_each(
            planned, self._write, _named, first=lambda db: self._refuse_old_leader(db, fence)
        )
        return [replace(intent, id=0) if made is None else made for intent, made in zip(planned, written, strict=True)]

    def refuse(self, refused: Iterable[NotBegun]) -> None:
        """Operations that were not begun."""
        self._store.put_each(list(refused), self._refuse, lambda r: f"what was not begun for job {r.job}")

    def _refuse(self, db: Connection, r: NotBegun) -> None:
        at = {"step": -1, "said": r.said, "begun_at": r.at, "closed": True}
        what = {"kind": r.kind.value, "plan": STEPS[r.kind], "decision": r.decision}
        db.execute(insert(operations).values(self._of(r, r.submit) | what | at))

    def refused(self, job: int) -> list[NotBegun]:
        """What was not begun for a job id, oldest first."""
        query = select(operations).where(self._mine, _OF.job == job, _OF.step < 0).order_by(_OF.id)
        with self._store.reading() as db:
            return [
                NotBegun(r.job, r.submit, OperationKind(r.kind), r.said, r.begun_at, r.decision)
                for r in db.execute(query)
            ]

    def outcome(self, judged: Iterable[tuple[Intent, Outcome, str]], now: float, *, close: bool = False) -> None:
        """What became of intents. An outcome that is known stays; UNKNOWN may be replaced once."""
        rows = [
            {"b_step": i.id, "b_of": i.operation, "outcome": o.value, "said": s, "outcome_at": now}
            for i, o, s in judged
        ]
        if not rows:
            return
        with self._store.writing() as db:
            db.execute(self._became, rows)
            if close:
                db.execute(self._close, [{"b_of": row["b_of"]} for row in rows])

    def since(self, now: float) -> float:
        """When this ledger was begun: of older edits it knows nothing."""
        if self._began is None:
            self._began = first_use(self._store, f"ledger:{self._cluster}", now)
        return self._began

    def watched(self) -> list[Intent]:
        """The step that each operation is at which is not closed, oldest first: open ones, and pins not started."""
        return self._rows(self._watched)

    def steps_of(self, operations_: Iterable[int]) -> dict[int, list[Intent]]:
        """All steps of these operations, in order."""
        found: dict[int, list[Intent]] = {number: [] for number in operations_}
        for part in chunks(list(found)):
            for intent in self._read(_INTENTS.where(steps.c.operation.in_(part)).order_by(steps.c.id)):
                found[intent.operation].append(intent)
        return found

    def open(self) -> list[Intent]:
        """Written, and nobody knows yet whether they were carried out."""
        return [i for i in self.watched() if i.outcome in (None, Outcome.UNKNOWN)]

    def of_job(self, job: int, task: int | None = None, most: int | None = None) -> list[Intent]:
        """All that was ever meant for a job id, oldest first; of one task and its array as a whole; the newest ones."""
        found = _INTENTS.where(_OF.job == job)
        if task is not None:
            found = found.where((_OF.task == task) | _OF.task.is_(None))
        return self._read(found.order_by(steps.c.id.desc()).limit(most))[::-1]

    def of_jobs(self, jobs: Iterable[int]) -> dict[int, list[Intent]]:
        """The same of several, those of whom there is nothing included."""
        found: dict[int, list[Intent]] = {job: [] for job in jobs}
        for part in chunks(sorted(found)):
            for intent in self._read(_INTENTS.where(_OF.job.in_(part)).order_by(steps.c.id)):
                found[intent.edit.job].append(intent)
        return found

    def newest(self, most: int = 100, before: int | None = None) -> list[Intent]:
        """The last `most` intents (of those older than the one of id `before`), newest first."""
        older = _INTENTS if before is None else _INTENTS.where(steps.c.id < before)
        return self._read(older.order_by(steps.c.id.desc()).limit(most))

    def undos(self, keys: Iterable[JobRef]) -> dict[JobRef, int]:
        """How often the pin of each of these jobs was taken back."""
        return {key: int(count) for key, count in self._figures(keys, self._undos).items()}

    def given_back(self, since: float) -> dict[JobRef, int]:
        """Jobs whose pin was taken back after `since`, and until when each was leased then."""
        query = (
            select(_OF.job, _OF.submit, func.max(steps.c.until).label("end"))
            .select_from(steps)
            .join(operations)
            .where(self._mine, steps.c.kind == EditKind.UNPIN.value, _LEASED, steps.c.written_at > since)
            .group_by(_OF.job, _OF.submit)
        )
        with self._store.reading() as db:
            return {JobRef(row.job, row.submit): int(row.end) for row in db.execute(query)}

    def lease_ends(self, keys: Iterable[JobRef]) -> dict[JobRef, int]:
        """The latest lease end that was ever written for each of these jobs."""
        found = self._figures(keys, self._per_job(func.max(steps.c.until), _LEASED))
        return {key: int(end) for key, end in found.items()}

    def wrote_begin(self, begins: Iterable[tuple[JobRef, int]]) -> set[tuple[JobRef, int]]:
        """Of these begin times those that are the end of a lease that we wrote."""
        wanted = set(begins)
        found: set[tuple[JobRef, int]] = set()
        if not wanted:
            return found
        with self._store.reading() as db:
            for part in chunks(list(wanted), 200):
                given = {"jobs": sorted({ref.id for ref, _ in part}), "begins": sorted({begin for _, begin in part})}
                found |= {(JobRef(row.job, row.submit), row.until) for row in db.execute(self._begins, given)}
        return found & wanted

    def leased_again(self, keys: Iterable[JobRef]) -> dict[JobRef, int]:
        """How often each of these jobs was leased again after its lease had run out."""
        refused = func.coalesce(steps.c.outcome, "") == Outcome.REFUSED.value
        again = (steps.c.kind == EditKind.LEASE.value) & ~refused
        return {key: int(count) for key, count in self._figures(keys, self._per_job(func.count(), again)).items()}

    def _per_job(self, figure: Any, condition: Any) -> Select[Any]:
        return (
            select(_OF.job, _OF.submit, figure.label("figure"))
            .select_from(steps)
            .join(operations)
            .where(self._mine, _OF.job.in_(_JOBS), condition)
            .group_by(_OF.job, _OF.submit)
        )

    def _figures(self, keys: Iterable[JobRef], query: Select[Any]) -> Mapping[JobRef, Any]:
        wanted = set(keys)
        result: dict[JobRef, Any] = {}
        if not wanted:
            return result
        with self._store.reading() as db:
            for part in chunks(sorted({ref.id for ref in wanted})):
                result |= {JobRef(row.job, row.submit): row.figure for row in db.execute(query, {"jobs": part})}
        return {ref: figure for ref, figure in result.items() if ref in wanted}

    def _read(self, query: Select[Any]) -> list[Intent]:
        return self._rows(query.where(self._mine))

    def _rows(self, query: Select[Any]) -> list[Intent]:
        with self._store.reading() as db:
            return [intent_of(row) for row in db.execute(query)]

    def _refuse_old_leader(self, db: Connection, fence: int) -> None:
        # Locked until this is written: nobody takes over between the look and the commit
        newest = db.execute(self._leader).first()
        if newest is not None and newest.fence > fence:
            raise NotLeader(f"{newest.owner} took over (fence {newest.fence}, ours is {fence}); nothing was written")

    def _write(self, db: Connection, intent: Intent) -> Intent:
        """A step; the first one begins its operation, which is at the newest one."""
        edit = intent.edit
        if intent.move is not None:
            kind = OperationKind.STOP if intent.move.target is None else OperationKind.MOVE
            intent = replace(intent, kind=kind, plan=STEPS[kind])
        intent = replace(intent, kind=intent.kind or KIND_OF[edit.kind], plan=intent.plan or (edit.kind,))
        if intent.operation:
            going_on = update(operations).where(self._mine, _OF.id == intent.operation)
            db.execute(going_on.values(step=intent.step))
        else:
            intent = replace(intent, operation=_insert(db, operations, self._operation(intent)))
            if intent.move is not None:
                intent = replace(intent, move=begun(db, self._cluster, intent.move, intent.operation))
        return replace(intent, id=_insert(db, steps, step_of(intent)))

    def _operation(self, i: Intent) -> dict[str, object]:
        what = {"kind": i.kind and i.kind.value, "plan": i.plan, "step": i.step, "decision": i.decision}
        told = {"said": i.cause, "begun_at": i.written_at, "closed": i.closed}
        return self._of(i.edit, i.submit) | what | told

    def _of(self, what: Edit | NotBegun, submit: int) -> dict[str, object]:
        task = None if isinstance(what, NotBegun) else what.task
        return {"cluster": self._cluster, "job": what.job, "submit": submit, "task": task}


def _named(intent: Intent) -> str:
    return f"the {intent.edit.kind.value} of job {intent.edit.job}"


def _insert(db: Connection, table: Table, row: Mapping[str, object]) -> int:
    made = db.execute(insert(table), row).inserted_primary_key
    assert made is not None
    return int(made[0])
