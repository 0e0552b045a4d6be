"""What was learned from jobs: scores with their doubt, baselines, features of applications. In, out: small records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from sqlalchemy import Connection, delete, insert, select, update

from pal_slurm.store.engine import Store
from pal_slurm.store.jsontext import dump, load
from pal_slurm.store.rows import chunks, columns, values
from pal_slurm.store.state import bump
from pal_slurm.store.tables import Baseline as Baseline
from pal_slurm.store.tables import app_features, gpu_slots, gpus, scores, state

JOB, HEARD, SHOWN = "job:", "paces:", "class:"  # keys of `state`
HEARD_S = 365 * 86_400.0  # so long a document is known again
_SOME = 500


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU, where it sits now."""

    id: int
    uuid: str
    model: str
    node: str
    slot: int


@dataclass(frozen=True, slots=True)
class CurrentScore:
    """What counts now for one GPU and class."""

    gpu_id: int
    cls: str
    score: float
    ci_low: float | None
    ci_high: float | None
    measured_at: float
    jobs: int | None = 0  # null: none was heard
    profiled: float | None = None  # by the nights alone
    profiled_error: float | None = None  # standard error of its logarithm
    profiled_at: float | None = None
    asked: float | None = None  # what one user's jobs say, and nobody else: it waits for a witness
    source: str = "jobs"


@dataclass(frozen=True, slots=True)
class Offset:
    """By how much (log) a job differs from what is usual for its application."""

    all: float  # by the scores that count
    mine: float  # by what its own user's jobs say of its GPUs


@dataclass(frozen=True, slots=True)
class AppFeatures:
    app: str
    seen_at: float
    jobs: int = 0  # whose utilisation is known
    compute: float | None = None
    memory: float | None = None
    compute_error: float | None = None
    memory_error: float | None = None
    sure: float | None = None
    noise: float | None = None
    base: Mapping[str, Baseline] = field(default_factory=dict)  # by shape: model|GPUs|nodes


@dataclass(frozen=True, slots=True)
class PaceSeen:
    """How fast something was once, in one shape."""

    app: str
    shape: str  # model|GPUs|nodes
    seen: Baseline


class LearnedRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def cards(self, uuids: Iterable[str]) -> dict[str, Card]:
        """Those of them that sit somewhere."""
        wanted, found = sorted(set(uuids)), {}
        query = select(*columns(Card, gpus, gpu_slots)).join_from(gpu_slots, gpus)
        with self._store.reading() as db:
            for first in range(0, len(wanted), _SOME):
                some = query.where(gpus.c.uuid.in_(wanted[first : first + _SOME]), gpu_slots.c.until.is_(None))
                found.update({row.uuid: Card(*row) for row in db.execute(some)})
        return found

    def scores(self, ids: Iterable[int]) -> dict[tuple[int, str], CurrentScore]:
        wanted, found = sorted(set(ids)), {}
        c = scores.c
        query = select(*columns(CurrentScore, scores))
        with self._store.reading() as db:
            for first in range(0, len(wanted), _SOME):
                for row in db.execute(query.where(c.gpu_id.in_(wanted[first : first + _SOME]))):
                    found[row.gpu_id, row.cls] = CurrentScore(*row)
        return found

    def write(self, learned: Iterable[CurrentScore], offsets: Mapping[str, Offset], now: float) -> int:
        """Scores and jobs' own paces in one transaction."""
        changed = list(learned)
        with self._store.writing() as db:
            for s in changed:
                _put_score(db, s)
            for job, offset in offsets.items():
                _put_offset(db, job, offset, now)
            if changed:
                bump(db, "scores", now)
        return len(changed)

    def offset(self, job: str) -> Offset | None:
        """None: not known yet."""
        with self._store.reading() as db:
            value = db.execute(select(state.c.value).where(state.c.key == _key(job))).scalar_one_or_none()
        if value is None:
            return None
        all_, _, mine = value.partition(" ")
        return Offset(float(all_), float(mine or all_))

    def forget_offsets(self) -> None:
        """Scores were made anew: jobs' baselines are to be found again."""
        with self._store.writing() as db:
            db.execute(delete(state).where(state.c.key.like(f"{JOB}%")))

    def put_shown(self, shown: Mapping[tuple[str, str], str], now: float) -> None:
        """The class of each user's jobs of each application, by what the nodes saw of them."""
        keys = {_shown(user, app): (user, app, cls) for (user, app), cls in shown.items()}
        with self._store.writing() as db:
            for some in chunks(list(keys.items())):
                db.execute(delete(state).where(state.c.key.in_([key for key, _ in some])))
                rows = [{"key": key, "value": dump(row), "written_at": now} for key, row in some]
                db.execute(insert(state), rows)

    def shown(self) -> dict[tuple[str, str], str]:
        """By user and application."""
        query = select(state.c.value).where(state.c.key.like(f"{SHOWN}%"))
        with self._store.reading() as db:
            rows = [load(value, tuple[str, str, str]) for value in db.execute(query).scalars()]
        return {(user, app): cls for user, app, cls in rows}

    def features(self) -> dict[str, AppFeatures]:
        with self._store.reading() as db:
            query = select(*columns(AppFeatures, app_features)).order_by(app_features.c.app)
            return {row.app: AppFeatures(*row) for row in db.execute(query)}

    def set_features(self, features: Iterable[AppFeatures]) -> None:
        rows = list(map(values, features))
        if not rows:
            return
        with self._store.writing() as db:
            db.execute(delete(app_features).where(app_features.c.app.in_([row["app"] for row in rows])))
            db.execute(insert(app_features), rows)


def _shown(user: str, app: str) -> str:
    return f"{SHOWN}{sha256(dump((user, app)).encode()).hexdigest()}"[:64]


def heard_before(db: Connection, digests: Iterable[str]) -> set[str]:
    """Of which of these documents the paces are stored."""
    keys = {_heard(digest): digest for digest in digests}
    wanted = sorted(keys)
    found: set[str] = set()
    for first in range(0, len(wanted), _SOME):
        some = state.c.key.in_(wanted[first : first + _SOME])
        found.update(keys[key] for key in db.execute(select(state.c.key).where(some)).scalars())
    return found


def add_paces(db: Connection, digest: str, paces: Sequence[PaceSeen], now: float) -> None:
    """Each beside what was seen before in its shape, as heavy as it is sure."""
    if not paces:
        return
    db.execute(delete(state).where(state.c.key.like(f"{HEARD}%"), state.c.written_at < now - HEARD_S))
    db.execute(insert(state).values(key=_heard(digest), value="", written_at=now))
    for pace in paces:
        mine = app_features.c.app == pace.app
        row = db.execute(select(*columns(AppFeatures, app_features)).where(mine)).first()
        known = AppFeatures(pace.app, now) if row is None else AppFeatures(*row)
        base = dict(known.base)
        base[pace.shape] = _joined(base[pace.shape], pace.seen) if pace.shape in base else pace.seen
        db.execute(delete(app_features).where(mine))
        db.execute(insert(app_features).values(values(replace(known, seen_at=now, base=base))))


def _joined(one: Baseline, two: Baseline) -> Baseline:
    a, b = 1.0 / one.var, 1.0 / two.var
    return Baseline((a * one.mean + b * two.mean) / (a + b), 1.0 / (a + b), one.jobs + two.jobs)


def _heard(digest: str) -> str:
    return f"{HEARD}{digest}"[:64]


def _put_score(db: Connection, s: CurrentScore) -> None:
    put = values(s, "gpu_id", "cls", "source")
    mine = (scores.c.gpu_id == s.gpu_id) & (scores.c.cls == s.cls)
    if not db.execute(update(scores).where(mine).values(put)).rowcount:
        new = {"gpu_id": s.gpu_id, "cls": s.cls, "n_runs": 0, "source": "jobs"}
        db.execute(insert(scores).values(put | new))


def _put_offset(db: Connection, job: str, offset: Offset, now: float) -> None:
    put = {"value": f"{offset.all!r} {offset.mine!r}", "written_at": now}
    if not db.execute(update(state).where(state.c.key == _key(job)).values(put)).rowcount:
        db.execute(insert(state).values(key=_key(job), **put))


def _key(job: str) -> str:
    return f"{JOB}{job}"[:64]
