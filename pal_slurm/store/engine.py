"""One open database. In: a URL. Out: `Store`, whose transactions speak StoreError and nothing else.

SQLite: WAL; `synchronous=FULL`, so that a committed intent survives a power cut (P3); writers take their lock when
they begin, so that none finds out at the end that it can't have it. PostgreSQL and MariaDB: read committed, and whoever
reads in order to write locks the rows. Nobody waits long for a server or for a lock.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from pal_slurm.errors import StoreError, StoreGone, StoreRefused
from pal_slurm.store.faults import in_sentences
from pal_slurm.store.place import as_owner_of, check_place
from pal_slurm.store.servers import server_engine
from pal_slurm.store.tables import HEAD
from pal_slurm.words import printable

LOCK_WAIT_S = 5.0
BATCH_WAIT_S = 60.0  # of a command that works through a whole database beside others, on any disk
WRITES = "pal_writes"  # in a connection's `info`: the next transaction is begun in order to write
ROWS_OWN = (StoreRefused, ArithmeticError, LookupError, TypeError, ValueError)  # what one row may raise
Row = TypeVar("Row")
Put = TypeVar("Put")
log = logging.getLogger("pald")


class Store:
    """A database of the right schema."""

    def __init__(self, engine: Engine, shown: str, path: Path | None) -> None:
        self.engine = engine
        self.shown = shown  # its name, without a password
        self.path = path  # of an SQLite file
        self._inode = path.stat().st_ino if path else 0
        # Of an SQLite file that we write: connections are kept open here, for a pool's care of them costs more than
        # most of our questions. A server's belong to the pool, which looks whether they still live
        # (`max_overflow`: who waits at a pool would not be woken by one that comes back here)
        self._keeps = path is not None and isinstance(engine.pool, QueuePool)
        self._idle: deque[Connection] = deque()
        self.refused: Callable[[str, Exception], None] = _log_refused  # told of each row that can't be written

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        self._still_there()
        with in_sentences(self.shown), self.as_owner(), self._connected(False) as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: all of it is on disk when the block ends, or nothing of it."""
        self._still_there()
        with in_sentences(self.shown), self.as_owner(), self._connected(True) as connection, connection.begin():
            yield connection

    def put_each(
        self,
        rows: Sequence[Row],
        put: Callable[[Connection, Row], Put],
        named: Callable[[Row], str],
        first: Callable[[Connection], object] = lambda db: None,
    ) -> list[Put | None]:
        """One transaction: `first`, then `put` of each row, and what it returns. Where one row can't be written, all
        others are, and `refused` hears of it by the name that `named` gives it; None stands in its place.
        """
        if not rows:
            return []
        try:
            with self.writing() as db:
                first(db)
                return [put(db, row) for row in rows]
        except ROWS_OWN:
            pass
        with self.writing() as db:
            first(db)
            return [self._put_alone(db, row, put, named) for row in rows]

    def _put_alone(
        self, db: Connection, row: Row, put: Callable[[Connection, Row], Put], named: Callable[[Row], str]
    ) -> Put | None:
        try:
            with in_sentences(self.shown), db.begin_nested():
                return put(db, row)
        except ROWS_OWN as error:
            self.refused(named(row), error)
            return None

    def as_owner(self) -> AbstractContextManager[None]:
        """Around whatever may open a file by name, as SQLite does at any moment."""
        return as_owner_of(self.path)

    def close(self) -> None:
        with self.as_owner():
            while self._idle:
                self._idle.pop().close()
            self.engine.dispose()

    @contextmanager
    def _connected(self, writes: bool) -> Iterator[Connection]:
        if not self._keeps:
            with self.engine.connect() as connection:
                yield connection
            return
        try:
            connection = self._idle.pop()  # other threads take theirs
        except IndexError:
            connection = self.engine.connect()
        try:
            connection.info[WRITES] = writes  # until it begins
            yield connection
        except BaseException:  # what state it is in can't be told
            connection.close()
            raise
        self._idle.append(connection)

    def _still_there(self) -> None:
        """An SQLite file that was removed can still be written, into nowhere."""
        if self.path is None:
            return
        try:
            inode = self.path.stat().st_ino
        except OSError:
            inode = 0
        if inode != self._inode:
            raise StoreGone(f"database {self.shown} was removed or replaced while in use; restart what uses it")


def _log_refused(name: str, error: Exception) -> None:
    log.error("%s can't be written down: %s", printable(name), printable(str(error)))


def open_store(url: str, *, create: bool = False, read_only: bool = False, lock_wait_s: float | None = None) -> Store:
    """The database at `url`. `create`: make an empty one where there is none; an older schema is never changed here.

    `read_only`: it refuses to be written, whoever asks.
    """
    engine, shown, path = connect(url, create=create, read_only=read_only, lock_wait_s=lock_wait_s)
    with as_owner_of(path):
        try:
            version = schema_version(engine, shown)
            if version is None and create:
                from pal_slurm.store.migrate import upgrade  # Alembic takes long to import, and is rarely needed

                version = upgrade(engine, shown)
            refuse_other_schema(version, shown)
            return Store(engine, shown, path)
        except BaseException:
            engine.dispose()
            raise


def connect(
    url: str, *, create: bool, read_only: bool = False, lock_wait_s: float | None = None
) -> tuple[Engine, str, Path | None]:
    """An engine, the name to show, and the file where it is SQLite; whatever schema is in it. `as_owner_of` belongs
    around its use."""
    wait_s = LOCK_WAIT_S if lock_wait_s is None else lock_wait_s
    try:
        parsed = make_url(url)
        shown = parsed.render_as_string(hide_password=True)
        if parsed.get_backend_name() != "sqlite":
            return server_engine(parsed, read_only, wait_s, patient=wait_s >= BATCH_WAIT_S), shown, None
    except (ArgumentError, SQLAlchemyError, ValueError) as error:
        raise StoreError(
            "the database URL can't be read; examples: sqlite:////var/lib/pal-slurm/pal.sqlite, "
            "postgresql+psycopg://pal@db/pal"
        ) from error
    except ImportError as error:
        raise StoreError(f"the driver for {shown} is not installed: {error}") from error
    if not parsed.database or parsed.database == ":memory:":
        raise StoreError("an SQLite database needs a file: sqlite:////var/lib/pal-slurm/pal.sqlite")
    path = Path(parsed.database).absolute()
    with as_owner_of(path):
        check_place(path)
        _file(path, create)
    return (_sqlite_to_read(path) if read_only else _sqlite(path, wait_s)), str(path), path


def _file(path: Path, create: bool) -> None:
    """Readable by pald's group only; SQLite gives its side files the same mode and owner."""
    try:
        if path.exists():
            return
    except OSError as error:
        raise StoreError(f"database {path} can't be read: {error.strerror}") from error
    if not create:
        raise StoreError(f"there is no database at {path}; pald makes it when it starts, or run: palctl db upgrade")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
    except FileExistsError:
        return  # by somebody else, just now
    except OSError as error:
        raise StoreError(f"database {path} can't be made: {error.strerror}") from error


def _sqlite(path: Path, lock_wait_s: float) -> Engine:
    def opened() -> sqlite3.Connection:
        # mode=rw: a file that is gone is an error, not a new empty database
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw",
            uri=True,
            timeout=lock_wait_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if _is_new(path):  # in a file that is in use this would be a write
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    return _beginning(create_engine("sqlite://", creator=opened, poolclass=QueuePool, max_overflow=-1))


def _beginning(engine: Engine) -> Engine:
    """The driver begins nothing by itself. A listener would do, and cost each statement its dispatch."""
    engine.dialect.do_begin = _begin  # type: ignore[assignment, method-assign]
    return engine


def _begin(connection: PoolProxiedConnection) -> None:
    connection.cursor().execute("BEGIN IMMEDIATE" if connection.info.pop(WRITES, False) else "BEGIN")


def _sqlite_to_read(path: Path) -> Engine:
    """For who may read the file and not write its directory. No connection is kept: see `immutable` below."""

    def opened() -> sqlite3.Connection:
        try:
            return _looked_into(path, "mode=ro")
        except sqlite3.OperationalError as error:
            # Nobody has it open, so there is no -wal, and we may not make one: as it lies there it is whole
            alone = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if not alone or path.with_name(f"{path.name}-wal").exists():
                raise
            return _looked_into(path, "mode=ro&immutable=1")

    return _beginning(create_engine("sqlite://", creator=opened, poolclass=NullPool))


def _looked_into(path: Path, how: str) -> sqlite3.Connection:
    name = f"file:{quote(str(path))}?{how}"
    connection = sqlite3.connect(name, uri=True, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _is_new(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:  # what is wrong with it the database will say
        return False


def schema_version(engine: Engine, shown: str) -> str | None:
    """The migration that the database stands at; None: it is empty."""
    with in_sentences(shown), engine.begin() as connection:
        tables = inspect(connection).get_table_names()
        if "alembic_version" in tables:
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        if tables:
            raise StoreError(f"database {shown} belongs to another program (it has a table {sorted(tables)[0]!r})")
        return None


def refuse_other_schema(version: str | None, shown: str) -> None:
    if version == HEAD:
        return
    if version is None:
        raise StoreError(f"database {shown} is empty; run: palctl db upgrade")
    if version > HEAD:  # numbers with leading zeros
        raise StoreError(
            f"database {shown} has schema {version}, and this pal-slurm knows {HEAD} only: it was written by a newer "
            "one. Install that release, or restore the backup from before its upgrade"
        )
    raise StoreError(f"database {shown} has schema {version}, this pal-slurm needs {HEAD}; run: palctl db upgrade")
