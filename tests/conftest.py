"""Databases for tests: SQLite in a file, PostgreSQL and MariaDB on servers of the session. Plugins of the whole run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.store.migrate import upgrade_url
from tests import spread
from tests.databases import Servers
from tests.slurm.counted import Counted


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(spread)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Counted())


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
