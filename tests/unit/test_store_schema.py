"""The migrations arrive at the tables that the repositories use, and the database is set up to keep what it says."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from pal_slurm.errors import StoreError
from pal_slurm.store import Store, open_store
from pal_slurm.store.health import faults, row_counts
from pal_slurm.store.migrate import head, upgrade_url
from pal_slurm.store.tables import HEAD, metadata


def test_the_migrations_make_the_tables(store: Store) -> None:
    with store.reading() as db:
        assert compare_metadata(MigrationContext.configure(db), metadata) == []


def test_the_newest_migration_is_the_one_that_the_store_asks_for() -> None:
    assert head() == HEAD


def test_upgrade_makes_a_database_and_then_has_nothing_to_do(store_url: str) -> None:
    assert upgrade_url(store_url) == (None, HEAD)
    assert upgrade_url(store_url) == (HEAD, HEAD)
    open_store(store_url).close()


def test_a_commit_is_on_disk_when_it_returns(sqlite_store: Store) -> None:
    with sqlite_store.writing() as db:
        assert db.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL
        assert db.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_others_can_not_read_the_database(sqlite_store: Store, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "pal.sqlite").stat().st_mode) == 0o640
    with sqlite_store.reading():
        assert all(not p.stat().st_mode & stat.S_IRWXO for p in tmp_path.glob("pal.sqlite*"))


def test_a_sound_database_has_no_faults(store: Store) -> None:
    assert faults(store) == []
    assert row_counts(store)["intents"] == 0


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("nonsense", "can't be read; examples"),
        ("oracle7://x/y", "can't be read; examples"),
        ("postgresql+nodriver://pal:s3cret@db/pal", "can't be read; examples"),
    ],
)
def test_a_url_that_is_no_use_is_refused_and_no_password_shown(url: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        open_store(url, create=True)
    assert "s3cret" not in str(caught.value)
