"""Databases for tests: SQLite in a file, PostgreSQL and MariaDB on servers of the session. Plugins of the whole run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from pal_slurm.store.migrate import upgrade_url
from tests import spread
from tests.databases import Servers
from tests.slurm.counted import Counted


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(spread)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Counted())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`scripts/test --fast`: a tenth of the examples, whatever number a test asks for."""
    if os.environ.get("PAL_TEST_QUICK"):
        for test in {getattr(item, "obj", None) for item in items}:
            told = getattr(test, "_hypothesis_internal_use_settings", None)
            if told is not None:
                vars(getattr(test, "__func__", test))["_hypothesis_internal_use_settings"] = settings(
                    told, max_examples=told.max_examples // 10 + 1
                )


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
