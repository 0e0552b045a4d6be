"""Small facts about the whole database: pause, pald's word of itself, revisions that tell of changes. In, out: text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import Connection, Select, delete, insert, or_, select, update

from pal_slurm.store.engine import Store
from pal_slurm.store.tables import state

_PAUSE = "paused"
_NIGHT = "night:"
_REVISION = "revision:"
_STAMP = "last:"
_PAUSED = select(state).where(state.c.key == _PAUSE)  # asked in each cycle: made once


@dataclass(frozen=True, slots=True)
class Pause:
    reason: str  # and by whom
    since: float  # 0: not known

    @property
    def told(self) -> str:
        """`since 2026-11-19 08:00:00: new driver (by alice)`."""
        try:
            since = f"{datetime.fromtimestamp(self.since):%Y-%m-%d %H:%M:%S}" if self.since else ""
        except (ValueError, OverflowError, OSError):  # a year that there is none of
            since = ""
        return f"since {since}: {self.reason}" if since else f"({self.reason})"


class Switches:
    """pause and resume."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def pause(self, reason: str, now: float) -> None:
        with self._store.writing() as db:
            _put(db, _PAUSE, reason, now)

    def resume(self) -> None:
        with self._store.writing() as db:
            db.execute(delete(state).where(state.c.key == _PAUSE))

    def paused(self) -> Pause | None:
        with self._store.reading() as db:
            row = db.execute(_PAUSED).first()
        return None if row is None else Pause(row.value, row.written_at)


class Said:
    """What the pald that leads has to say of itself, for `palctl status`; one row, written when it changes."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._key = f"said:{cluster}"[:64]  # as long as a key may be

    def say(self, notes: Iterable[str], now: float) -> None:
        with self._store.writing() as db:
            _put(db, self._key, "\n".join(notes), now)

    def notes(self) -> tuple[str, ...]:
        with self._store.reading() as db:
            row = db.execute(select(state.c.value).where(state.c.key == self._key)).first()
        return () if row is None else tuple(filter(None, row.value.split("\n")))


def first_use(store: Store, what: str, now: float) -> float:
    """When this database first held anything of `what`; what is older than that may have been forgotten."""
    key = f"first_use:{what}"
    asked = select(state.c.written_at).where(state.c.key == key)
    with store.reading() as db:
        if (found := db.execute(asked).scalar_one_or_none()) is not None:
            return float(found)
    with store.writing() as db:
        if (found := db.execute(asked).scalar_one_or_none()) is not None:
            return float(found)
        _put(db, key, "", now)
    return now


def stamp(store: Store, what: str, now: float) -> None:
    """`what` was done now; `stamped` tells when it was done last."""
    with store.writing() as db:
        _put(db, f"{_STAMP}{what}", "", now)


def stamped(store: Store, what: str) -> float | None:
    with store.reading() as db:
        found = db.execute(select(state.c.written_at).where(state.c.key == f"{_STAMP}{what}")).scalar_one_or_none()
    return None if found is None else float(found)


def revision(db: Connection, key: str) -> int:
    """How often what `key` names was changed."""
    return _revisions(db, (key,))[0]


def revisions(store: Store, *keys: str) -> tuple[int, ...]:
    """Of several, asked at once."""
    with store.reading() as db:
        return _revisions(db, keys)


def _revisions(db: Connection, keys: tuple[str, ...]) -> tuple[int, ...]:
    found = {row.key: int(row.value) for row in db.execute(_asking(keys))}
    return tuple(found.get(f"{_REVISION}{key}", 0) for key in keys)


@cache
def _asking(keys: tuple[str, ...]) -> Select[tuple[str, str]]:
    return select(state.c.key, state.c.value).where(or_(*(state.c.key == f"{_REVISION}{key}" for key in keys)))


def bump(db: Connection, key: str, now: float) -> None:
    """Locked until this is written: two that count at the same moment count two."""
    name = f"{_REVISION}{key}"
    before = db.execute(select(state.c.value).where(state.c.key == name).with_for_update()).scalar_one_or_none()
    _put(db, name, str(int(before or 0) + 1), now)


def mark_nights(db: Connection, nights: Iterable[int], now: float) -> None:
    """Runs of these nights came in that no score was made of yet; the number grows each time."""
    for night in sorted(nights):
        bump(db, f"{_NIGHT}{night}", now)


def marked_nights(db: Connection) -> dict[int, int]:
    """Night -> the number that it was marked with last."""
    prefix = f"{_REVISION}{_NIGHT}"
    rows = db.execute(select(state.c.key, state.c.value).where(state.c.key.like(f"{prefix}%")))
    return {int(key.removeprefix(prefix)): int(value) for key, value in rows}


def unmark_nights(db: Connection, done: Mapping[int, int]) -> None:
    """Scores were made of these; a night that was marked again meanwhile stays marked."""
    for night, number in done.items():
        key = f"{_REVISION}{_NIGHT}{night}"
        db.execute(delete(state).where(state.c.key == key, state.c.value == str(number)))


def _put(db: Connection, key: str, value: str, now: float) -> None:
    changed = db.execute(update(state).where(state.c.key == key).values(value=value, written_at=now)).rowcount
    if not changed:
        db.execute(insert(state).values(key=key, value=value, written_at=now))
