"""What the database says when it can't, in sentences with a remedy. In: driver exceptions. Out: StoreError."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, SQLAlchemyError, StatementError

from pal_slurm.errors import StoreError, StoreRefused
from pal_slurm.words import printable

# Primary SQLite result codes; extended codes carry the primary one in their low byte (sqlite.org/rescode.html).
_SQLITE = {
    sqlite3.SQLITE_BUSY: "is locked by another program and did not become free in time; nothing was written. "
    "If this lasts, find the program with: fuser -v {path}",
    sqlite3.SQLITE_LOCKED: "is locked by another program and did not become free in time; nothing was written",
    sqlite3.SQLITE_READONLY: "can't be written; it and its directory must belong to the user that pald runs as",
    sqlite3.SQLITE_PERM: "can't be opened; it and its directory must belong to the user that pald runs as",
    sqlite3.SQLITE_CANTOPEN: "can't be opened; look whether the directory and the file exist and who owns them",
    sqlite3.SQLITE_FULL: "can't grow: the disk is full; nothing was written. Free some space and it goes on by itself",
    sqlite3.SQLITE_IOERR: "can't be read or written: the disk reports an error; look at the kernel log",
    sqlite3.SQLITE_CORRUPT: "is damaged; move it away with its -wal and -shm files and restore a backup, or start "
    "empty with: palctl db upgrade (scores have to be imported again)",
    sqlite3.SQLITE_NOTADB: "is no SQLite database; move it away and restore a backup, or start empty with: "
    "palctl db upgrade (scores have to be imported again)",
}


_AWAY = (
    "can't be reached, or went away; what was begun is there whole or not at all, and it goes on by itself when the "
    "server is back"
)
_LOGIN = "refuses this user or password; look at database.url, or at the file that database.url_file names"
_DENIED = (
    "can't be written: this user may not, or the server is a standby or read-only; nothing was written. pald's user "
    "needs SELECT, INSERT, UPDATE and DELETE, and for palctl db upgrade also CREATE, ALTER, INDEX and REFERENCES"
)
_CLASH = (
    "gave way to another program that wrote the same rows at the same moment; nothing was written. pald does it again "
    "by itself, a command can be run again"
)
_LOCKED = "is locked by another program and did not become free in time; nothing was written"
_FULL = "can't grow: its disk is full; nothing was written. Free some space and it goes on by itself"
_MANY = "takes no more connections; it goes on by itself when others have gone"
_ABSENT = "does not exist on that server; make it there, then run: palctl db upgrade"

# SQLSTATE (PostgreSQL manual, appendix A), or the first characters of one
_POSTGRESQL = {
    "08": _AWAY, "57P": _AWAY, "28": _LOGIN, "42501": _DENIED, "25006": _DENIED, "40": _CLASH, "23505": _CLASH,
    "55P03": _LOCKED, "53100": _FULL, "53300": _MANY, "3D000": _ABSENT,
}  # fmt: skip
# Error numbers (mariadb.com/kb, "MariaDB Error Code Reference"); from 2000 on the client's own
_MARIADB = {
    0: _AWAY, 1053: _AWAY, 1927: _AWAY, 2002: _AWAY, 2003: _AWAY, 2006: _AWAY, 2013: _AWAY, 2055: _AWAY,
    1045: _LOGIN, 1698: _LOGIN,
    1044: _DENIED, 1142: _DENIED, 1143: _DENIED, 1290: _DENIED, 1792: _DENIED, 1836: _DENIED,
    1020: _CLASH, 1062: _CLASH, 1213: _CLASH,
    1205: _LOCKED, 1021: _FULL, 1114: _FULL, 1040: _MANY, 1203: _MANY, 1226: _MANY, 1049: _ABSENT,
}  # fmt: skip


# MariaDB calls these operational: text or a number that its column does not hold
_OF_A_ROW = frozenset({1264, 1265, 1292, 1366, 1406})
# The row is there already: not its values are wrong, somebody else wrote it (on a server: _CLASH)
_THERE_ALREADY = frozenset({sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY})


def _of_row(error: SQLAlchemyError | sqlite3.Error, cause: object) -> bool:
    """Whether the values of one row are what is wrong."""
    if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
        return True  # a value that no column type of ours takes
    if isinstance(error, DataError | IntegrityError):
        there = getattr(cause, "sqlite_errorcode", None) in _THERE_ALREADY
        return not there and _of_server(error, cause) is not _CLASH
    return next(iter(getattr(cause, "args", ())), None) in _OF_A_ROW


def _of_server(error: Exception, cause: object) -> str | None:
    """What a server's answer means, where it is one that we know."""
    number = next(iter(getattr(cause, "args", ())), None)
    if isinstance(number, int) and number in _MARIADB:
        return _MARIADB[number]
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str):
        return next((words for start, words in _POSTGRESQL.items() if state.startswith(start)), None)
    gone = isinstance(error, DBAPIError) and error.connection_invalidated
    return _AWAY if gone or isinstance(error, OperationalError) else None


def sentence(error: Exception, shown: str) -> str:
    """`shown` is the database's name without a password."""
    cause = error.orig if isinstance(error, StatementError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None and (words := _SQLITE.get(code & 0xFF)):
        return f"database {shown} {words.format(path=shown)}"
    said = printable(" ".join(str(cause).split()), 200)
    if not isinstance(cause, sqlite3.Error) and (words := _of_server(error, cause)):
        return f"database {shown} {words} ({said})"
    if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
        return f"a row can't be written to database {shown}: {said}"
    if isinstance(cause, sqlite3.Error):
        return f"database {shown} refused: {said}; check it with: palctl db check"
    return f"database {shown} gave no good answer: {said}"


@contextmanager
def in_sentences(shown: str) -> Iterator[None]:
    """Turns whatever the database raises into a StoreError; what our own code raises within stays what it is."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, StatementError) else error
        if isinstance(cause, StoreError):  # of a column type of ours
            raise cause from error
        kind = StoreRefused if _of_row(error, cause) else StoreError
        raise kind(sentence(error, shown)) from error
    except UnicodeDecodeError as error:  # sqlite3 quotes a name of a damaged schema that is no UTF-8
        raise StoreError(f"database {shown} {_SQLITE[sqlite3.SQLITE_CORRUPT].format(path=shown)}") from error
