"""SIGKILL at a hundred random moments of taking in and of migrating: the database opens, and nothing is half there.

The work runs in a forked child, which is killed by its id after a random part of the time that the work takes.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from pal_slurm.learning.run import ingest
from pal_slurm.store import Store, open_store
from pal_slurm.store.engine import connect, schema_version
from pal_slurm.store.health import faults
from pal_slurm.store.migrate import upgrade
from pal_slurm.store.tables import HEAD, nights, runs
from tests.unit.spools import NIGHT, NOW, fleet, here, put_night, scores

TIMES = 100
NODES, GPUS, ROUNDS = 6, 4, 3


@dataclass
class Killer:
    """Kills work after a random part of the time that it takes, and learns that time as it goes: the machine may be
    three times as busy from one turn to the next."""

    rng: random.Random
    length: float = 0.0

    def kills(self, work: Callable[[], None]) -> bool:
        """Whether the kill came before the work was over."""
        begun, wait = time.monotonic(), self.rng.uniform(0, 1.2 * self.length)
        child = self._fork(work)
        while time.monotonic() - begun < wait:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self._by_itself(status, begun)
                return False
            time.sleep(wait / 100)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            self._by_itself(status, begun)
            return False
        self.length *= 1.03  # too short a length would be found out in no other way
        return True

    def lets(self, work: Callable[[], None]) -> None:
        """Work that nobody disturbs: how long it takes."""
        begun = time.monotonic()
        self._by_itself(os.waitpid(self._fork(work), 0)[1], begun)

    def _fork(self, work: Callable[[], None]) -> int:
        if (child := os.fork()) == 0:
            try:
                work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        return child

    def _by_itself(self, status: int, begun: float) -> None:
        assert os.waitstatus_to_exitcode(status) == 0, "the work failed by itself"
        self.length = time.monotonic() - begun


def take_in(url: str, spool: Path) -> None:
    store = open_store(url)
    ingest(store, here(spool), spool, NOW)
    store.close()


def whole(store: Store) -> None:
    """No document is there in part, and nights hold exactly the runs that are stored, or are marked as due."""
    assert faults(store) == []
    with store.reading() as db:
        sizes = set(db.execute(select(func.count()).select_from(runs).group_by(runs.c.document)).scalars())
        assert sizes <= {GPUS * ROUNDS}
        due = db.execute(text("SELECT count(*) FROM state WHERE key LIKE 'revision:night:%'")).scalar_one()
        counted = db.execute(select(func.coalesce(func.sum(nights.c.runs), 0))).scalar_one()
        stored = db.execute(select(func.count()).select_from(runs)).scalar_one()
        assert due or counted == stored


@pytest.mark.every(3)
def test_killed_a_hundred_times_while_taking_in(tmp_path: Path) -> None:
    truth = fleet(NODES, GPUS, slow={("n2", 1): 1.5})
    url, spool = f"sqlite:///{tmp_path}/pal.sqlite", tmp_path / "spool"
    open_store(url, create=True).close()
    spool.mkdir()
    killer = Killer(random.Random(11))
    put_night(spool, truth, NIGHT, rounds=ROUNDS)
    killer.lets(lambda: take_in(url, spool))
    cut_short = 0
    for turn in range(TIMES):
        put_night(spool, truth, NIGHT - (turn + 1) * 86_400, rounds=ROUNDS, seed=turn)
        cut_short += killer.kills(lambda: take_in(url, spool))
        store = open_store(url)
        whole(store)
        store.close()
    take_in(url, spool)
    store = open_store(url)
    whole(store)
    with store.reading() as db:
        assert db.execute(select(func.count()).select_from(runs)).scalar_one() == (TIMES + 1) * NODES * GPUS * ROUNDS
    found = scores(store)
    store.close()
    print(f"{cut_short} of {TIMES} were killed at work")
    assert cut_short > TIMES / 5
    assert found["n2", 1] == pytest.approx(1.5, rel=0.03)
    assert not [p for p in spool.iterdir() if p.is_file() and not p.name.startswith(".")]


def make_old(path: Path) -> None:
    """A database of the first schema, with a row in it."""
    engine, shown, _ = connect(f"sqlite:///{path}", create=True)
    upgrade(engine, shown, "0001")
    with engine.begin() as db:
        db.execute(text("INSERT INTO gpus (uuid, model, first_seen, last_seen) VALUES ('GPU-1', 'a100', 1, 2)"))
    engine.dispose()


def migrate(path: Path) -> None:
    engine, shown, _ = connect(f"sqlite:///{path}", create=False)
    upgrade(engine, shown)
    engine.dispose()


@pytest.mark.every(3)
def test_killed_a_hundred_times_while_migrating(tmp_path: Path) -> None:
    old = tmp_path / "old.sqlite"
    make_old(old)
    with sqlite3.connect(old) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    content = old.read_bytes()
    killer, path = Killer(random.Random(12)), tmp_path / "pal.sqlite"
    path.write_bytes(content)
    killer.lets(lambda: migrate(path))
    seen: list[str | None] = []
    for _ in range(TIMES):
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            name.unlink(missing_ok=True)
        path.write_bytes(content)
        killer.kills(lambda: migrate(path))
        engine, shown, _ = connect(f"sqlite:///{path}", create=False)
        seen.append(schema_version(engine, shown))
        with engine.begin() as connection:
            assert connection.execute(text("SELECT uuid FROM gpus")).scalar_one() == "GPU-1"
            tables = {r[0] for r in connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))}
        assert ("job_samples" in tables) == ("alerts" in tables) == (seen[-1] == HEAD)
        upgrade(engine, shown)
        engine.dispose()
        store = open_store(f"sqlite:///{path}")
        assert faults(store) == []
        store.close()
    print(f"{seen.count('0001')} of {TIMES} were killed before the change was there, {seen.count(HEAD)} after")
    assert {"0001", HEAD} == set(seen)
