"""Database servers. In: a URL. Out: an engine whose sessions wait neither for a server nor for a lock for long."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection

CONNECT_WAIT_S = 5
SILENCE_S = 30  # of a server that hangs, or whose host is gone


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


def server_engine(url: URL, read_only: bool, lock_wait_s: float) -> Engine:
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
