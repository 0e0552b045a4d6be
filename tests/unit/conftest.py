"""Fixtures that several unit tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from pal_slurm.store import Store, open_store
from pal_slurm.store.engine import connect
from pal_slurm.store.tables import metadata

OTHER = os.environ.get("PAL_TEST_DATABASE_URL", "")  # the same tests on PostgreSQL or MariaDB; everything in it is lost


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/pal.sqlite"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A new, empty store: SQLite in a file, or the database that PAL_TEST_DATABASE_URL names."""
    if OTHER:
        engine, _, _ = connect(OTHER, create=True)
        with engine.begin() as db:
            metadata.drop_all(db)
            db.execute(text("DROP TABLE IF EXISTS alembic_version"))
        engine.dispose()
    opened = open_store(OTHER or store_url, create=True)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(store_url: str) -> Iterator[Store]:
    """SQLite whatever the others use, for what is true of a file only."""
    opened = open_store(store_url, create=True)
    yield opened
    opened.close()
