"""Database servers. In: a URL. Out: an engine whose sessions wait neither for a server nor for a lock for long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from inspect import signature

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

CONNECT_WAIT_S = 5
SILENCE_S = 30  # of a server that hangs, or whose host is gone
BATCH_SILENCE_S = 3600  # of one that works through a whole table for a command


@dataclass(frozen=True)
class _Server:
    lock_wait: tuple[str, ...] = ()
    read_only: str = ""  # what makes a session so
    patience: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # arguments by driver; the URL's own win
    silence: tuple[str, ...] = ()  # arguments that say for how many seconds an answer is waited for


_LIBPQ = {
    "connect_timeout": CONNECT_WAIT_S, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4,
    "tcp_user_timeout": 1000 * SILENCE_S,
}  # fmt: skip
_MARIADB = _Server(
    ("SET SESSION innodb_lock_wait_timeout = {s}", "SET SESSION lock_wait_timeout = {s}"),
    "SET SESSION TRANSACTION READ ONLY",
    {"pymysql": {"connect_timeout": CONNECT_WAIT_S}, "mysqldb": {"connect_timeout": CONNECT_WAIT_S}},
    ("read_timeout", "write_timeout"),
)
_SERVERS = {
    "postgresql": _Server(
        ("SET lock_timeout = {ms}",), "SET default_transaction_read_only = on", {"psycopg": _LIBPQ, "psycopg2": _LIBPQ}
    ),
    "mysql": _MARIADB,
    "mariadb": _MARIADB,
}


def server_engine(url: URL, read_only: bool, lock_wait_s: float, *, patient: bool = False) -> Engine:
    """`patient`: what it is asked may take long."""
    silence_s = BATCH_SILENCE_S if patient else SILENCE_S
    known = _SERVERS.get(url.get_backend_name(), _Server())
    told = known.patience.get(url.get_driver_name())
    patience = {} if told is None else {**told, **dict.fromkeys(known.silence, silence_s)}
    engine = create_engine(
        url,
        pool_pre_ping=True,  # a server that was restarted meanwhile is nobody's error
        isolation_level="READ COMMITTED",
        connect_args={key: value for key, value in patience.items() if key not in url.query},
    )
    if url.get_driver_name() == "psycopg":
        event.listen(engine, "do_connect", lambda dialect, record, args, keys: _psycopg(silence_s)(*args, **keys))

    @event.listens_for(engine, "connect")
    def opened(connection: DBAPIConnection, _: object) -> None:
        with closing(connection.cursor()) as cursor:
            if read_only and known.read_only:
                cursor.execute(known.read_only)
            for statement in known.lock_wait:
                cursor.execute(statement.format(ms=round(lock_wait_s * 1000), s=max(1, round(lock_wait_s))))
        connection.commit()

    return engine


def _psycopg(silence_s: float) -> Callable[..., DBAPIConnection]:
    """`connect`; libpq itself would wait for an answer for ever. psycopg before 3.3 has no way to say so."""
    from psycopg import Connection, OperationalError
    from psycopg.abc import RV, PQGen
    from psycopg.pq import TransactionStatus

    if "timeout" not in signature(Connection.wait).parameters:
        return Connection.connect  # type: ignore[return-value]

    class Impatient(Connection[tuple[object, ...]]):
        def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
            try:
                return super().wait(gen, interval, silence_s if timeout is None else timeout)
            except OperationalError:
                if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                    self.pgconn.finish()  # what state it is in nobody knows: no more is asked through it
                raise

    return Impatient.connect  # type: ignore[return-value]
