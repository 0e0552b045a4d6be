"""Fixtures that several unit tests share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.store import Store, open_store
from tests.databases import each


@pytest.fixture(params=each())
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated database without any row: each test that asks for one runs on all three."""
    if database == "sqlite":
        return f"sqlite:///{shutil.copy(request.getfixturevalue('sqlite_template'), tmp_path)}"
    return str(request.getfixturevalue("servers")[database].fresh())


@pytest.fixture
def empty_url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without any table."""
    if database == "sqlite":
        yield f"sqlite:///{tmp_path}/pal.sqlite"
        return
    with request.getfixturevalue("servers")[database].empty() as url:
        yield url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A new, empty store."""
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """What is true of a file only."""
    opened = open_store(f"sqlite:///{tmp_path}/pal.sqlite", create=True)
    yield opened
    opened.close()
