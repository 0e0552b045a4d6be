"""What jobs really got. In: JobOutcome, when a job starts and again when it ends. Out: the same, for reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, true, update

from pal_slurm.model import JobRef
from pal_slurm.store.engine import Store
from pal_slurm.store.rows import chunks, names, values
from pal_slurm.store.tables import outcomes


@dataclass(frozen=True, slots=True)
class JobOutcome:
    job: int
    submit: int
    start: int
    cls: str
    nodes: tuple[str, ...]
    gpus: tuple[tuple[int, ...], ...]  # device indices per node
    task: int | None = None
    end: int | None = None
    app: str | None = None
    as_pinned: bool | None = None  # None: it was not pinned
    step_time: float | None = None  # predicted for what it got
    slurm_step_time: float | None = None  # predicted for what Slurm itself would have chosen
    user: str = ""  # empty: not known, or over 64 characters: cut off it could be the name of another
    limit_s: int | None = None  # of time; None: it has none, or nobody knows
    named: str | None = None  # what its name comes to: repeated jobs have the same
    shared: bool = False  # it had parts of its GPUs, and another job may have had the rest
    array_id: int | None = None  # of a task: `job` is then the id that Slurm gave it as it started
    cut: bool = False  # it did not run to its end, as far as Slurm told

    @property
    def ref(self) -> JobRef:
        """As decisions have it: a task by its array."""
        return JobRef(self.job if self.array_id is None else self.array_id, self.submit, self.task)


# Made once: asked for at each start and end
_KEY = ("cluster", "job", "submit", "task", "start")
_AGAIN = update(outcomes).where(*(outcomes.c[name] == bindparam(f"b_{name}") for name in _KEY))
_NEW = insert(outcomes)
_OVER = update(outcomes).where(
    *(outcomes.c[name] == bindparam(f"b_{name}") for name in _KEY[:3]), outcomes.c.end.is_(None)
)


class OutcomeRepo:
    """The jobs of one cluster."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster

    def record(self, got: Iterable[JobOutcome]) -> None:
        """Put these down; the same start of the same job again replaces what was said of it."""
        self._store.put_each(list(got), self._put, lambda outcome: f"what job {outcome.job} got")

    def _put(self, db: Connection, outcome: JobOutcome) -> None:
        row = self._values(outcome)
        if not db.execute(_AGAIN, row | {f"b_{name}": row[name] for name in _KEY}).rowcount:
            db.execute(_NEW, row)

    def ended(self, jobs: Iterable[tuple[int, int]], end: int, cut: Collection[tuple[int, int]] = ()) -> None:
        """The newest start of each of these (job, submit) is over; of some before they had run to their end."""
        rows: list[dict[str, object]] = [
            {"b_cluster": self._cluster, "b_job": job, "b_submit": submit, "end": end, "cut": (job, submit) in cut}
            for job, submit in jobs
        ]
        if rows:
            with self._store.writing() as db:
                db.execute(_OVER, rows)

    def running(self) -> list[JobOutcome]:
        """Started, and not known to have ended."""
        return self._find(outcomes.c.end.is_(None))

    def of_job(self, job: int) -> list[JobOutcome]:
        return self._find(outcomes.c.job == job)

    def of_array(self, array: int, task: int | None = None, most: int | None = None) -> list[JobOutcome]:
        """Of its tasks, whatever job id each has; of one task; the newest starts."""
        c = outcomes.c
        mine = true() if task is None else c.task == task
        whole, split = c.job == array, (c.array_id == array) & (c.job != array)  # each question has its index
        every = [got for which in (whole, split) for got in self._find(which & mine, most)]
        return sorted(every, key=_began)[-most if most else 0 :]

    def of_jobs(self, jobs: Sequence[int]) -> list[JobOutcome]:
        return [found for some in chunks(jobs) for found in self._find(outcomes.c.job.in_(some))]

    def since(self, start: float) -> list[JobOutcome]:
        """Every start since then."""
        return self._find(outcomes.c.start >= start)

    def ran(self, start: float, least_s: float, most: int) -> list[JobOutcome]:
        """Runs of named applications that began since then, took so long and are over: the newest of each user.

        Not those that had parts of GPUs: how long they took, others decided too.
        """
        took = outcomes.c.end - outcomes.c.start
        c = outcomes.c
        mine = (c.cluster == self._cluster, c.start >= start, took >= least_s, c.app != "", c.shared.is_not(True))
        return self._in_turns(mine, most)

    def lately(self, start: float, most: int) -> list[JobOutcome]:
        """Runs of known users that began since then and are over: the newest of each user."""
        c = outcomes.c
        return self._in_turns((c.cluster == self._cluster, c.start >= start, c.end.is_not(None), c.user != ""), most)

    def _in_turns(self, conditions: Sequence[Any], most: int) -> list[JobOutcome]:
        """Of each user the newest, of each the one before that, and so on: no user's thousands leave out another's."""
        nth = func.row_number().over(partition_by=outcomes.c.user, order_by=outcomes.c.start.desc()).label("nth")
        found = select(outcomes, nth).where(*conditions).subquery()
        with self._store.reading() as db:
            return [_outcome(row) for row in db.execute(select(found).order_by(found.c.nth, found.c.job).limit(most))]

    def shared(self, since: float, until: float) -> list[JobOutcome]:
        """Who had parts of GPUs at any moment of that time."""
        c = outcomes.c
        return self._find(c.shared.is_(True) & (c.start <= until) & (c.end.is_(None) | (c.end >= since)))

    def newest(self, most: int = 100, *, app: str | None = None) -> list[JobOutcome]:
        """Of everybody, newest start first; of one application, where that is named."""
        return self._newest([] if app is None else [outcomes.c.app == app], most)

    def newest_of(self, user: str, most: int = 100, *, app: str | None = None) -> list[JobOutcome]:
        """Of one user. A job of which nobody wrote whose it is belongs to nobody: an empty name is an error of ours."""
        if not user:
            raise ValueError("a query of one user's jobs without a user")
        return self._newest([outcomes.c.user == user, *([] if app is None else [outcomes.c.app == app])], most)

    def _newest(self, conditions: Sequence[Any], most: int) -> list[JobOutcome]:
        query = select(outcomes).where(outcomes.c.cluster == self._cluster, *conditions)
        with self._store.reading() as db:
            found = db.execute(query.order_by(outcomes.c.start.desc(), outcomes.c.job.desc()).limit(most)).all()
        return [_outcome(row) for row in found]

    def _find(self, condition: Any, most: int | None = None) -> list[JobOutcome]:
        """By start. Sorted here: asked to, SQLite goes through the index of starts, and reads every row for one job."""
        query = select(outcomes).where(outcomes.c.cluster == self._cluster, condition)
        if most is not None:
            query = query.order_by((outcomes.c.start + 0).desc()).limit(most)  # a sum is in no index
        with self._store.reading() as db:
            return sorted((_outcome(row) for row in db.execute(query)), key=_began)

    def _values(self, o: JobOutcome) -> dict[str, object]:
        task = -1 if o.task is None else o.task
        return {**values(o), "cluster": self._cluster, "task": task, "user": o.user if len(o.user) <= 64 else ""}


def _began(got: JobOutcome) -> tuple[int, int]:
    return got.start, got.job


def _outcome(row: Row[Any]) -> JobOutcome:
    got = JobOutcome(**{name: getattr(row, name) for name in names(JobOutcome)})
    task = None if got.task is None or got.task < 0 else got.task
    return replace(got, task=task, user=got.user or "", shared=bool(got.shared), cut=bool(got.cut))
