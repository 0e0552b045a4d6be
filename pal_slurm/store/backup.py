"""A copy of an SQLite database that is in use. In: a store. Out: one file, whole or not there."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pal_slurm.errors import BadInput, StoreError
from pal_slurm.store.engine import Store
from pal_slurm.store.faults import in_sentences

PAGES = 1_000  # between two looks at the clock of a progress bar


def backup(store: Store, path: Path, tell: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Copy the database as it is at one moment, look it over, and put it at `path`; its size. Nobody waits for it."""
    if store.path is None:
        raise BadInput(f"{store.shown} is no SQLite database: back it up with pg_dump or mariadb-dump")
    if path.exists():
        raise BadInput(f"{path} is there already; name another file")
    folder = None
    try:
        # A directory of our own: others may write where the copy goes, and SQLite opens by name
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", dir=path.parent))
        part = folder / "part"
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))  # it holds what the database holds
        with in_sentences(str(path)), closing(sqlite3.connect(part)) as copy:
            copy.execute("PRAGMA journal_mode=OFF")  # nothing is opened by name while `store` is read by its owner
            _copy(store, copy, tell)
            found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreError(f"the copy of {store.shown} is not sound ({found}); look with: palctl db check")
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(path)
    except OSError as error:
        raise BadInput(f"{path} can't be written: {error.strerror}") from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return path.stat().st_size


def _copy(store: Store, copy: sqlite3.Connection, tell: Callable[[int, int], None]) -> None:
    with store.reading() as db:
        db.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()  # from here on one moment is read
        bare = db.connection.driver_connection
        assert isinstance(bare, sqlite3.Connection)
        bare.backup(copy, pages=PAGES, progress=lambda _, left, total: tell(total - left, total), sleep=0)
