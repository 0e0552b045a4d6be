"""What the database says when it can't, in sentences with a remedy. In: driver exceptions. Out: StoreError."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pal_slurm.errors import StoreError

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


def sentence(error: Exception, shown: str) -> str:
    """`shown` is the database's name without a password."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None and (words := _SQLITE.get(code & 0xFF)):
        return f"database {shown} {words.format(path=shown)}"
    said = " ".join(str(cause).split())[:300]
    if isinstance(cause, sqlite3.Error):
        return f"database {shown} refused: {said}; check it with: palctl db check"
    return f"database {shown} gave no good answer: {said}"


@contextmanager
def in_sentences(shown: str) -> Iterator[None]:
    """Turns whatever the database raises into a StoreError."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise StoreError(sentence(error, shown)) from error
    except (ValueError, TypeError) as error:  # text that is not UTF-8, a word that no column of ours holds
        raise StoreError(
            f"database {shown} holds something that pal-slurm did not write ({error}); look with: palctl db check, and "
            "restore a backup if it is damaged"
        ) from error
