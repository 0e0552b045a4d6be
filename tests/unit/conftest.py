"""Fixtures that several unit tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.store import Store, open_store


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/pal.sqlite"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A new, empty SQLite store in a file."""
    opened = open_store(store_url, create=True)
    yield opened
    opened.close()
