"""What each GPU did in each night, and the scores made of it. In: runs of marked nights. Out: rows that scores rest on.

Runs are the truth; `nights` and `scores` can be made anew from them at any time. A night is marked in the transaction
that stores its runs and unmarked in the one that stores what was made of them: killed in between, it is done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from pal_slurm.store.engine import Store
from pal_slurm.store.rows import columns, values
from pal_slurm.store.scores import put_scores
from pal_slurm.store.state import bump, mark_nights, marked_nights, unmark_nights
from pal_slurm.store.tables import alerts, gpu_slots, gpus, nights, runs, scores

_ROWS = 5_000  # per statement
OURS = ("probe", "jobs")  # sources of scores that can be made anew


@dataclass(frozen=True, slots=True)
class KernelKey:
    """What was run, and what for. `app` may be empty: only the class was told."""

    cls: str
    app: str
    scope: str  # gpu, node


class NightRow(NamedTuple):
    gpu_id: int
    night: int
    seconds: float
    stalled: float
    spread: float
    runs: int
    stalls: int
    node_stalls: int
    measured_at: float
    node: str
    setup: str
    score: float | None = None


class ModelLevel(NamedTuple):
    cls: str
    app: str
    scope: str
    model: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ProfiledScore:
    """A score made of nights."""

    gpu_id: int
    cls: str
    score: float
    error: float  # standard error of its logarithm
    ci_low: float
    ci_high: float
    n_runs: int
    nights: int
    since: int
    stalls: int
    node_stalls: int
    node_part: float
    intermittent: bool
    measured_at: float


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a person should look at; `key` tells the same thing from another one."""

    key: str
    kind: str
    said: str
    raised_at: float


class RunRow(NamedTuple):
    gpu_id: int
    cls: str
    app: str  # empty: only the class was told
    scope: str
    seconds: float
    measured_at: float
    node: str
    driver: str
    power_cap_w: float


class NightRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def marked(self) -> dict[int, int]:
        """Nights with runs that no score was made of yet."""
        with self._store.reading() as db:
            return marked_nights(db)

    def mark_all(self, now: float) -> int:
        """All nights whose runs are there are to be made anew; how many there are."""
        with self._store.writing() as db:
            every = list(db.execute(select(runs.c.night).where(runs.c.seconds.is_not(None)).distinct()).scalars())
            mark_nights(db, every, now)
            for first in range(0, len(every), 500):  # a night whose runs were forgotten stays as it is
                db.execute(delete(nights).where(nights.c.night.in_(every[first : first + 500])))
        return len(every)

    def runs_of(self, night: int) -> list[RunRow]:
        query = select(
            runs.c.gpu_id,
            runs.c.cls,
            func.coalesce(runs.c.app, ""),
            func.coalesce(runs.c.scope, "gpu"),
            runs.c.seconds,
            runs.c.measured_at,
            func.coalesce(runs.c.node, ""),
            func.coalesce(runs.c.driver, ""),
            func.coalesce(runs.c.power_cap_w, 0.0),
        ).where(runs.c.night == night, runs.c.seconds.is_not(None))
        with self._store.reading() as db:
            return [RunRow(*row) for row in db.execute(query)]

    def window(self, kernel: KernelKey, first: int, last: int) -> list[NightRow]:
        """The nights from `first` to `last`."""
        c = nights.c
        query = select(*columns(NightRow, nights)).where(
            c.cls == kernel.cls, c.app == kernel.app, c.scope == kernel.scope, c.night >= first, c.night <= last
        )
        with self._store.reading() as db:
            return [NightRow(*row) for row in db.execute(query)]

    def kernels(self, first: int) -> list[KernelKey]:
        """Everything that was run since that night."""
        query = select(nights.c.cls, nights.c.app, nights.c.scope).where(nights.c.night >= first).distinct()
        with self._store.reading() as db:
            return [KernelKey(*row) for row in db.execute(query)]

    def by_model(self, first: int) -> list[ModelLevel]:
        """What each kernel took on each GPU model since that night, the mean."""
        c = nights.c
        query = (
            select(c.cls, c.app, c.scope, gpus.c.model, func.avg(c.seconds))
            .join_from(nights, gpus)
            .where(c.night >= first)
            .group_by(c.cls, c.app, c.scope, gpus.c.model)
        )
        with self._store.reading() as db:
            return [ModelLevel(*row) for row in db.execute(query)]

    def newest(self) -> int:
        """The newest night that is known; 0: none."""
        with self._store.reading() as db:
            return int(db.execute(select(func.coalesce(func.max(nights.c.night), 0))).scalar_one())

    def models(self) -> dict[int, str]:
        with self._store.reading() as db:
            return {row.id: row.model for row in db.execute(select(gpus.c.id, gpus.c.model))}

    def nodes_measured(self, since: float) -> dict[str, float]:
        """Nodes that were profiled since then, and when last."""
        query = select(runs.c.node, func.max(runs.c.measured_at)).where(
            runs.c.night >= int(since // 86_400), runs.c.measured_at >= since, runs.c.source == "probe"
        )
        with self._store.reading() as db:
            return {node: at for node, at in db.execute(query.group_by(runs.c.node)) if node}

    def nodes_asked(self) -> set[str]:
        """Nodes with a GPU whose score waits for a witness."""
        query = select(gpu_slots.c.node).join_from(gpu_slots, scores, gpu_slots.c.gpu_id == scores.c.gpu_id)
        with self._store.reading() as db:
            waits = query.where(gpu_slots.c.until.is_(None), scores.c.asked.is_not(None)).distinct()
            return set(db.execute(waits).scalars())

    def write(
        self,
        made: Mapping[KernelKey, Sequence[NightRow]],
        profiled: Sequence[ProfiledScore],
        raised: Iterable[Alert],
        done: Mapping[int, int],
        now: float,
        anew: bool = False,
    ) -> int:
        """All of it in one transaction; how many scores changed.

        A score that is newer than the nights stays; with `anew` only one that did not come from nights and jobs.
        """
        with self._store.writing() as db:
            for night in done:
                db.execute(delete(nights).where(nights.c.night == night))
            for kernel, rows in made.items():
                for first in range(0, len(rows), _ROWS):
                    db.execute(insert(nights), [values(kernel) | row._asdict() for row in rows[first : first + _ROWS]])
            written = put_scores(db, list(map(_profiled, profiled)), OURS if anew else ())
            _raise(db, raised)
            unmark_nights(db, done)
            if written:
                bump(db, "scores", now)
        return written

    def alerts(self, since: float = 0.0) -> list[Alert]:
        """Newest first."""
        query = (
            select(alerts).where(alerts.c.raised_at >= since).order_by(alerts.c.raised_at.desc(), alerts.c.id.desc())
        )
        with self._store.reading() as db:
            return [Alert(row.key, row.kind, row.said, row.raised_at) for row in db.execute(query)]

    def alert(self, raised: Iterable[Alert]) -> int:
        with self._store.writing() as db:
            return _raise(db, raised)


def _profiled(s: ProfiledScore) -> dict[str, object]:
    told = {"profiled": s.score, "profiled_error": s.error, "profiled_at": s.measured_at}
    return values(s, "error") | told | {"source": "probe", "jobs": 0, "asked": None}


def _raise(db: Connection, raised: Iterable[Alert]) -> int:
    """An alert that stands already is not told again."""
    told = 0
    for alert in raised:
        key = alert.key[:191]
        if db.execute(select(alerts.c.id).where(alerts.c.key == key)).first() is None:
            db.execute(insert(alerts).values(key=key, kind=alert.kind, said=alert.said, raised_at=alert.raised_at))
            told += 1
    return told
