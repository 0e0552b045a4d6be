"""The migrations arrive at the tables that the repositories use, and the database is set up to keep what it says."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from pal_slurm.errors import StoreError
from pal_slurm.model import App
from pal_slurm.store import AppRepo, Store, open_store
from pal_slurm.store.engine import connect
from pal_slurm.store.health import faults, row_counts
from pal_slurm.store.migrate import head, revisions, upgrade, upgrade_url
from pal_slurm.store.tables import HEAD, metadata

OLDER = [revision for revision in revisions() if revision != HEAD]


def differences(url: str) -> list[object]:
    """Between the tables that are there and those that the repositories use."""
    store = open_store(url)
    with store.reading() as db:
        found = list(compare_metadata(MigrationContext.configure(db, opts={"compare_server_default": True}), metadata))
    store.close()
    return found


def test_the_newest_migration_is_the_one_that_the_store_asks_for() -> None:
    assert head() == HEAD


def test_upgrade_makes_a_database_and_then_has_nothing_to_do(empty_url: str) -> None:
    assert upgrade_url(empty_url) == (None, HEAD)
    assert upgrade_url(empty_url) == (HEAD, HEAD)
    assert differences(empty_url) == []


@pytest.mark.parametrize("older", OLDER)
def test_each_older_schema_becomes_the_newest_and_keeps_its_rows(empty_url: str, older: str) -> None:
    engine, shown, _ = connect(empty_url, create=True)
    upgrade(engine, shown, older)
    with engine.begin() as db:
        db.execute(text("INSERT INTO gpus (uuid, model, first_seen, last_seen) VALUES ('GPU-1', 'a100', 1, 2)"))
    engine.dispose()
    with pytest.raises(StoreError, match=f"has schema {older}, this pal-slurm needs {HEAD}; run: palctl db upgrade"):
        open_store(empty_url)
    assert upgrade_url(empty_url) == (older, HEAD)
    assert differences(empty_url) == []
    store = open_store(empty_url)
    with store.reading() as db:
        assert db.execute(text("SELECT uuid FROM gpus")).scalars().all() == ["GPU-1"]
    store.close()


def test_names_are_told_apart_by_case_and_accents(store: Store) -> None:
    repo = AppRepo(store)
    names = ["Bert", "BERT", "bert", "bért"]
    repo.set([App(name, "A") for name in names], "admin", 1.0)
    assert set(repo.all()) == set(names)


def test_a_commit_is_on_disk_when_it_returns(sqlite_store: Store) -> None:
    with sqlite_store.writing() as db:
        assert db.execute(text("PRAGMA synchronous")).scalar() == 2  # FULL
        assert db.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_others_can_not_read_the_database(sqlite_store: Store, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "pal.sqlite").stat().st_mode) == 0o640
    with sqlite_store.reading():
        assert all(not p.stat().st_mode & stat.S_IRWXO for p in tmp_path.glob("pal.sqlite*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_root_makes_is_its_directory_s_owner_s_to_write(public_path: Path) -> None:
    """`palctl db upgrade` or `pald --dry-run --once` before pald was ever started, which is no root."""
    os.chown(public_path, 65534, 65533)
    url = f"sqlite:///{public_path}/pal.sqlite"
    store = open_store(url, create=True)
    with store.writing() as db:
        db.execute(text("CREATE TABLE x (y INTEGER)"))
        files = sorted(public_path.glob("pal.sqlite*"))
        assert [(p.stat().st_uid, p.stat().st_gid) for p in files] == [(65534, 65533)] * 3
    store.close()


def test_a_sound_database_has_no_faults(store: Store) -> None:
    assert faults(store) == []
    assert row_counts(store)["steps"] == 0


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
