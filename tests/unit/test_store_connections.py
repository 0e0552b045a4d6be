"""Connections to an SQLite file are kept open: many at once, and none that is left in a bad state."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from pal_slurm.store import open_store

MANY = 20


def test_nobody_waits_for_a_connection_that_another_thread_has_given_back(
    tmp_path: Path, sqlite_template: Path
) -> None:
    """As many at once as anybody wants; and then again."""
    shutil.copy(sqlite_template, tmp_path / "pal.sqlite")
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    try:
        for _ in range(2):
            with ExitStack() as held:
                asked = [held.enter_context(store.reading()) for _ in range(MANY)]
                assert [db.execute(text("SELECT 1")).scalar() for db in asked] == [1] * MANY
    finally:
        store.close()


def test_a_transaction_that_failed_leaves_nothing_to_the_next_one(tmp_path: Path, sqlite_template: Path) -> None:
    shutil.copy(sqlite_template, tmp_path / "pal.sqlite")
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    put = text("INSERT INTO state (key, value, written_at) VALUES (:key, 'x', 1)")
    try:
        with pytest.raises(KeyError), store.writing() as db:
            db.execute(put, {"key": "lost"})
            raise KeyError
        with store.writing() as db:
            db.execute(put, {"key": "kept"})
        with store.reading() as db:
            assert db.execute(text("SELECT key FROM state WHERE key IN ('lost', 'kept')")).scalars().all() == ["kept"]
    finally:
        store.close()
