"""Fixtures that several unit tests share."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pal_slurm.store import Store, open_store
from tests.databases import each
from tests.simpald import House
from tests.unit.answered import answers_are_as_documented

__all__ = ["answers_are_as_documented"]  # of every test here


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


@pytest.fixture
def make_house(sqlite_template: Path) -> Iterator[Callable[..., House]]:
    """`make_house(count=2)`: SimSlurm with pald beside it; its database in memory, where there is such a place."""
    made: list[House] = []
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as home:

        def make(**keys: Any) -> House:
            made.append(House(Path(home) / f"house{len(made)}", sqlite_template, **keys))
            return made[-1]

        yield make
        for house in made:
            house.kill()


@pytest.fixture
def house(make_house: Callable[..., House]) -> House:
    """Four nodes of four slots, Slurm 26.05, one pald."""
    return make_house()


@pytest.fixture
def in_tokyo() -> Iterator[None]:
    """Nine hours before UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()
