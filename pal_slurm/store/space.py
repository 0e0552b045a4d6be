"""Giving space back. In: a store that rows were removed from. Out: bytes that went back to the file system.

Others go on reading and writing meanwhile; `full` rewrites everything, and keeps them out while it does.
SQLite: free pages are cut off the end, some per transaction, where the file was made for that (`auto_vacuum`, since the
file was made or rewritten by us). PostgreSQL: VACUUM. MariaDB: OPTIMIZE TABLE, which copies the table beside itself.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text

from pal_slurm.errors import StoreError
from pal_slurm.store.engine import Store
from pal_slurm.store.faults import in_sentences

PAGES = 1_000  # per transaction
_INCREMENTAL = 2  # PRAGMA auto_vacuum


@dataclass(frozen=True, slots=True)
class GivenBack:
    bytes: int
    free: int  # inside, to be used again; SQLite only


def give_back(
    store: Store,
    tables: Iterable[str],
    *,
    full: bool = False,
    tell: Callable[[int, int], None] = lambda done, total: None,
    pause: Callable[[float], None] = time.sleep,
) -> GivenBack:
    """`tables`: those that rows were removed from; SQLite knows the whole file only."""
    if store.path is None:
        return GivenBack(sum(_of_server(store, sorted(tables), full, tell)), 0)
    before = _Pages.of(store)
    if full:
        _rewrite(store, store.path, before)
    elif before.incremental:
        _cut_off(store, before.free, tell, pause)
    with in_sentences(store.shown), store.as_owner(), closing(store.engine.raw_connection()) as raw:
        raw.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")  # shortens the file itself; waits for nobody
    after = _Pages.of(store)
    return GivenBack((before.count - after.count) * after.size, after.free * after.size)


@dataclass(frozen=True, slots=True)
class _Pages:
    size: int
    count: int
    free: int
    incremental: bool

    @classmethod
    def of(cls, store: Store) -> _Pages:
        with store.reading() as db:
            size, count, free, mode = (
                int(db.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_size", "page_count", "freelist_count", "auto_vacuum")
            )
        return cls(size, count, free, mode == _INCREMENTAL)


def _cut_off(store: Store, free: int, tell: Callable[[int, int], None], pause: Callable[[float], None]) -> None:
    left, before = free, free + 1
    while 0 < left < before:
        begun = time.monotonic()
        with store.writing() as db:
            bare = db.connection.driver_connection
            assert bare is not None
            # A row without a column per page: SQLAlchemy would not ask for them, and one page only would be freed
            bare.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
            before, left = left, int(db.exec_driver_sql("PRAGMA freelist_count").scalar_one())
        tell(free - left, free)
        if left:
            pause(min(1.0, time.monotonic() - begun))


def _rewrite(store: Store, path: Path, pages: _Pages) -> None:
    """The new content lies in a temporary file and then in the -wal file before it is in its place."""
    needed = 2 * (pages.count - pages.free) * pages.size
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise StoreError(
            f"to rewrite database {store.shown} {needed / 1e6:.0f} MB must be free in {path.parent}, and "
            f"{free / 1e6:.0f} MB are; nothing was rewritten"
        )
    there = _temporary_files_in(path.parent)
    with in_sentences(store.shown), store.as_owner(), there, closing(store.engine.raw_connection()) as raw:
        cursor = raw.cursor()
        cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")  # from the rewriting on
        cursor.execute("VACUUM")


@contextmanager
def _temporary_files_in(directory: Path) -> Iterator[None]:
    """Where the space was looked for; /var/tmp may be small."""
    before = os.environ.get("SQLITE_TMPDIR")
    os.environ["SQLITE_TMPDIR"] = str(directory)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SQLITE_TMPDIR"]
        else:
            os.environ["SQLITE_TMPDIR"] = before


def _of_server(store: Store, tables: list[str], full: bool, tell: Callable[[int, int], None]) -> Iterator[int]:
    """Bytes per table. Outside of transactions: neither command may be in one."""
    shrink = _postgresql if store.engine.dialect.name == "postgresql" else _mariadb
    with in_sentences(store.shown), store.engine.connect() as bare:
        db = bare.execution_options(isolation_level="AUTOCOMMIT")
        for n, table in enumerate(tables, 1):
            yield shrink(db, table, full)
            tell(n, len(tables))


def _postgresql(db: Connection, table: str, full: bool) -> int:
    size = text("SELECT pg_total_relation_size(CAST(:name AS regclass))")
    before = int(db.execute(size, {"name": table}).scalar_one())
    db.exec_driver_sql(f'VACUUM ({"FULL, " if full else ""}ANALYZE) "{table}"')
    return before - int(db.execute(size, {"name": table}).scalar_one())


def _mariadb(db: Connection, table: str, full: bool) -> int:
    del full  # it copies the whole table either way
    size = text(
        "SELECT data_length + index_length + data_free FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_name = :name"
    )
    db.exec_driver_sql(f"ANALYZE TABLE `{table}`").all()
    before = int(db.execute(size, {"name": table}).scalar_one())
    for row in db.exec_driver_sql(f"OPTIMIZE TABLE `{table}`").all():
        if row[2].lower() == "error":
            raise StoreError(f"table {table} can't be optimized: {row[3]}")
    return before - int(db.execute(size, {"name": table}).scalar_one())
