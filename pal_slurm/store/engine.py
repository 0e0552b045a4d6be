"""One open database. In: a URL. Out: `Store`, whose transactions speak StoreError and nothing else.

SQLite: WAL; `synchronous=FULL`, so that a committed intent survives a power cut (P3); writers take their lock when
they begin, so that none finds out at the end that it can't have it. PostgreSQL and MariaDB: read committed, and whoever
reads in order to write locks the rows. Nobody waits long for a server or for a lock.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from pal_slurm.errors import StoreError, StoreGone
from pal_slurm.store.faults import in_sentences
from pal_slurm.store.place import check_place, give_to_its_place
from pal_slurm.store.tables import HEAD

LOCK_WAIT_S = 5.0
BATCH_WAIT_S = 60.0  # of a command that works through a whole database beside others, on any disk
CONNECT_WAIT_S = 5
SILENCE_S = 30  # of a server whose host is gone
_WRITES = "pal_writes"


@dataclass(frozen=True)
class _Server:
    lock_wait: tuple[str, ...] = ()
    read_only: str = ""  # what makes a session so
    patience: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # arguments by driver; the URL's own win


_LIBPQ = {
    "connect_timeout": CONNECT_WAIT_S, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4,
    "tcp_user_timeout": 1000 * SILENCE_S,
}  # fmt: skip
_MARIADB = _Server(
    ("SET SESSION innodb_lock_wait_timeout = {s}", "SET SESSION lock_wait_timeout = {s}"),
    "SET SESSION TRANSACTION READ ONLY",
    {"pymysql": {"connect_timeout": CONNECT_WAIT_S}, "mysqldb": {"connect_timeout": CONNECT_WAIT_S}},
)
_SERVERS = {
    "postgresql": _Server(
        ("SET lock_timeout = {ms}",), "SET default_transaction_read_only = on", {"psycopg": _LIBPQ, "psycopg2": _LIBPQ}
    ),
    "mysql": _MARIADB,
    "mariadb": _MARIADB,
}


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

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        self._still_there()
        with in_sentences(self.shown), self._connected(False) as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: all of it is on disk when the block ends, or nothing of it."""
        self._still_there()
        with in_sentences(self.shown), self._connected(True) as connection, connection.begin():
            yield connection

    def close(self) -> None:
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
            connection.info[_WRITES] = writes  # until it begins
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


def open_store(url: str, *, create: bool = False, read_only: bool = False, lock_wait_s: float | None = None) -> Store:
    """The database at `url`. `create`: make an empty one where there is none; an older schema is never changed here.

    `read_only`: it refuses to be written, whoever asks.
    """
    engine, shown, path = connect(url, create=create, read_only=read_only, lock_wait_s=lock_wait_s)
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
    """An engine, the name to show, and the file where it is SQLite; whatever schema is in it."""
    wait_s = LOCK_WAIT_S if lock_wait_s is None else lock_wait_s
    try:
        parsed = make_url(url)
        shown = parsed.render_as_string(hide_password=True)
        if parsed.get_backend_name() != "sqlite":
            return _server(parsed, read_only, wait_s), shown, None
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
    check_place(path)
    _file(path, create)
    return (_sqlite_to_read(path) if read_only else _sqlite(path, wait_s)), str(path), path


def _file(path: Path, create: bool) -> None:
    """Readable by pald's group only; SQLite gives its side files the same mode and owner."""
    if path.exists():
        return
    if not create:
        raise StoreError(f"there is no database at {path}; pald makes it when it starts, or run: palctl db upgrade")
    try:
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
        try:
            give_to_its_place(made, path)
        finally:
            os.close(made)
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
    connection.cursor().execute("BEGIN IMMEDIATE" if connection.info.pop(_WRITES, False) else "BEGIN")


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


def _server(url: URL, read_only: bool, lock_wait_s: float) -> Engine:
    known = _SERVERS.get(url.get_backend_name(), _Server())
    patience = known.patience.get(url.get_driver_name(), {})
    engine = create_engine(
        url,
        pool_pre_ping=True,  # a server that was restarted meanwhile is nobody's error
        isolation_level="READ COMMITTED",
        connect_args={key: value for key, value in patience.items() if key not in url.query},
    )

    @event.listens_for(engine, "connect")
    def opened(connection: DBAPIConnection, _: object) -> None:
        with closing(connection.cursor()) as cursor:
            if read_only and known.read_only:
                cursor.execute(known.read_only)
            for statement in known.lock_wait:
                cursor.execute(statement.format(ms=round(lock_wait_s * 1000), s=max(1, round(lock_wait_s))))
        connection.commit()

    return engine


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
