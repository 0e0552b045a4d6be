"""Databases for tests: SQLite in a file, PostgreSQL and MariaDB on servers of the session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.store.migrate import upgrade_url
from tests.databases import Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    opened = Servers()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file without any row, to be copied."""
    path = tmp_path_factory.mktemp("template") / "pal.sqlite"
    upgrade_url(f"sqlite:///{path}")
    return path
