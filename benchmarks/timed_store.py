"""A store with a stop watch: how long others wait to write. In: a database file. Out: a Store that remembers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from pal_slurm.store import Store, open_store


class TimedStore(Store):
    """Remembers its longest write transaction."""

    longest = 0.0

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        begun = time.monotonic()
        with super().writing() as db:
            yield db
        self.longest = max(self.longest, time.monotonic() - begun)


def timed_store(directory: str) -> TimedStore:
    opened = open_store(f"sqlite:///{Path(directory) / 'pal.sqlite'}", create=True)
    return TimedStore(opened.engine, opened.shown, opened.path)
