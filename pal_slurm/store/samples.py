"""What jobs showed: step times and utilisation, per node and stretch of time. In: samples. Out: the same.

A sample is stored under the digest of the file it came in, so that it counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update

from pal_slurm.store.engine import Store
from pal_slurm.store.rows import names, values
from pal_slurm.store.tables import job_samples

HIS_WORD = "u"  # ends the name of a document that the job's user wrote


@dataclass(frozen=True, slots=True)
class JobSample:
    """One node's part of a job, for some minutes."""

    document: str  # SHA-256 of the file, the number in it, HIS_WORD where its user wrote the file
    cluster: str
    job: str  # as Slurm prints it: 7 or 7_3
    app: str | None
    node: str
    gpus: tuple[str, ...]  # UUIDs
    begun_at: float
    ended_at: float
    steps: int
    step_seconds: float | None
    compute: float | None = None  # utilisation, 0 to 1
    memory: float | None = None
    id: int = 0
    user: str = ""  # whose job it was, as Slurm or the kernel says; empty: nobody knows

    @property
    def measured(self) -> bool:
        """The node saw it: it is not its user's word."""
        return not self.document.endswith(HIS_WORD)


class SampleRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, samples: Sequence[JobSample]) -> int:
        """Store these; how many were new."""
        with self._store.writing() as db:
            known: set[str] = set()
            digests = [sample.document for sample in samples]
            for first in range(0, len(digests), 500):
                wanted = job_samples.c.document.in_(digests[first : first + 500])
                known.update(db.execute(select(job_samples.c.document).where(wanted)).scalars())
            rows = [_values(s) for s in {s.document: s for s in samples}.values() if s.document not in known]
            if rows:
                db.execute(insert(job_samples), rows)
        return len(rows)

    def unheard(self, ended_before: float, most: int = 10_000) -> list[JobSample]:
        """Samples that no score has learned from, oldest first."""
        c = job_samples.c
        query = select(job_samples).where(c.heard.is_(False), c.ended_at <= ended_before)
        with self._store.reading() as db:
            return [_sample(row) for row in db.execute(query.order_by(c.ended_at, c.id).limit(most))]

    def heard(self, ids: Iterable[int]) -> None:
        rows = [{"id_": number} for number in ids]
        if not rows:
            return
        with self._store.writing() as db:
            db.execute(update(job_samples).where(job_samples.c.id == bindparam("id_")).values(heard=True), rows)

    def of_job(self, cluster: str, job: str) -> list[JobSample]:
        c = job_samples.c
        query = select(job_samples).where(c.cluster == cluster, c.job == job).order_by(c.ended_at, c.id)
        with self._store.reading() as db:
            return [_sample(row) for row in db.execute(query)]

    def of_app(self, app: str, since: float, most: int = 1_000) -> list[JobSample]:
        """The newest of each user of an application: nobody's crowd out another's."""
        c = job_samples.c
        mine = (c.app == app) & (c.ended_at >= since)
        found = []
        with self._store.reading() as db:
            for user in db.execute(select(c.user).where(mine).distinct()).scalars().all():
                whose = c.user.is_(None) if user is None else c.user == user
                query = select(job_samples).where(mine, whose).order_by(c.ended_at.desc(), c.id.desc()).limit(most)
                found += [_sample(row) for row in db.execute(query)]
        return found

    def apps(self, since: float) -> list[str]:
        c = job_samples.c
        query = select(c.app).where(c.app.is_not(None), c.ended_at >= since).distinct()
        with self._store.reading() as db:
            return sorted(str(app) for app in db.execute(query).scalars())

    def hear_again(self, since: float) -> int:
        """Scores were made anew: what jobs showed since then is to be heard again."""
        with self._store.writing() as db:
            done = db.execute(update(job_samples).where(job_samples.c.ended_at > since).values(heard=False))
            return int(done.rowcount)


def _values(s: JobSample) -> dict[str, object]:
    return {**values(s, "id"), "heard": s.step_seconds is None}


def _sample(row: Row[Any]) -> JobSample:
    return JobSample(**{name: getattr(row, name) for name in names(JobSample)} | {"user": row.user or ""})
