"""palctl db vacuum and backup: what is removed, what is given back, what a copy holds."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
import threading
import time
from collections import namedtuple
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput, StoreError
from pal_slurm.model import Intent, Outcome, Pin, Plain
from pal_slurm.store import Delivery, Ledger, Measurement, ScoreRepo, Sighting, Store, engine, open_store
from pal_slurm.store.backup import backup
from pal_slurm.store.engine import BATCH_WAIT_S
from pal_slurm.store.health import faults, row_counts

DAY = 86_400.0


def fill(store: Store, age_days: float, rows: int) -> None:
    """Closed operations and raw runs of that age."""
    at = time.time() - age_days * DAY
    pin = Intent(0, 100, Pin(1, nodes=("n" * 400,)), 1, at, outcome=Outcome.DONE, closed=True)
    Ledger(store, "c").write([pin] * rows)
    runs = [Measurement("GPU-1", "A", at, "resnet", 0.2, node="n" * 255) for _ in range(rows)]
    ScoreRepo(store).add(Delivery(f"{age_days:g}".ljust(64, "x"), "probe", [Sighting("GPU-1", "n1", 0)], runs, []), at)


@pytest.fixture
def config(store: Store, store_url: str, tmp_path: Path) -> Path:
    path = tmp_path / "pal.yaml"
    path.write_text(f"database: {{url: '{store_url}', keep_days: 90, keep_runs_days: 365}}\n")
    return path


def run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(palctl, ["--config", str(config), "db", *words])


def removed(told: str) -> dict[str, int]:
    return {row["what"]: row["rows"] for row in json.loads(told)["removed"] if row["rows"]}


def test_vacuum_removes_what_is_old_and_gives_the_space_back(store: Store, config: Path) -> None:
    fill(store, 400, 3_000)
    fill(store, 100, 7)
    before = row_counts(store)
    old = {"closed operations": 3_007, "raw runs": 3_000}
    assert removed(run(config, "vacuum", "--dry-run", "--json").output) == old
    assert row_counts(store) == before
    told = run(config, "vacuum", "--json").output
    assert removed(told) == old
    assert json.loads(told)["given_back_bytes"] > 1_000_000
    after = row_counts(store)
    assert {name: before[name] - after[name] for name in before if before[name] != after[name]} == {
        "operations": 3_007, "runs": 3_000, "steps": 3_007,
    }  # fmt: skip
    assert faults(store) == []
    assert removed(run(config, "vacuum", "--json").output) == {}


def test_vacuum_waits_for_a_writer_that_keeps_the_lock_for_longer_than_a_cycle_waits(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite_store, 400, 3)
    monkeypatch.setattr(engine, "LOCK_WAIT_S", 0.01)
    (config := tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\n")
    began, done = threading.Event(), []

    def vacuum() -> None:
        began.set()
        done.append(run(config, "vacuum"))

    thread = threading.Thread(target=vacuum)
    with sqlite_store.writing():
        thread.start()
        began.wait()
        thread.join(1)
        assert not done
    thread.join(60)
    assert done[0].exit_code == 0, done[0].output
    assert row_counts(sqlite_store)["operations"] == 0


def test_vacuum_says_in_words_what_it_did(store: Store, config: Path) -> None:
    fill(store, 400, 3)
    some = run(config, "vacuum", "-n", "-o", "rows,what").output
    assert some.splitlines()[0].split() == ["ROWS", "WHAT"]
    assert json.loads(run(config, "vacuum", "-n", "-o", "rows", "--json").output)["removed"][0].keys() == {"rows"}
    would = run(config, "vacuum", "-n").output
    assert "closed operations" in would and "365" in would and "these would be removed" in would
    assert "MB given back" in run(config, "vacuum").output
    assert run(config, "vacuum").output.endswith(": nothing is old\n")


def test_full_rewrites_every_table(store: Store, config: Path) -> None:
    fill(store, 400, 200)
    assert run(config, "vacuum", "--full").exit_code == 0
    assert row_counts(store)["runs"] == 0


def test_others_write_while_it_works(store: Store, store_url: str, config: Path) -> None:
    fill(store, 400, 6_000)
    over, written, clashes = threading.Event(), 0, 0
    other = open_store(store_url, lock_wait_s=BATCH_WAIT_S)  # a disk may stand still for longer than a cycle waits

    def write() -> None:
        nonlocal written, clashes
        while True:
            try:
                Ledger(other, "c").write([Intent(0, 100, Plain(2), 1, time.time())])
                written += 1
            except StoreError:  # MariaDB ends one of two that wait for each other: pald's next cycle writes it
                clashes += 1
            if over.wait(0.1):  # the lock is free for most of the time, also where disks are slow
                return

    thread = threading.Thread(target=write)
    thread.start()
    done = run(config, "vacuum")
    over.set()
    thread.join(60)
    other.close()
    assert done.exit_code == 0, done.output
    assert row_counts(store)["steps"] == written
    assert clashes <= (3 if store.engine.dialect.name in ("mysql", "mariadb") else 0)


# A file only


@pytest.fixture
def sqlite_config(sqlite_store: Store, tmp_path: Path) -> Path:
    path = tmp_path / "pal.yaml"
    path.write_text(f"state_dir: {tmp_path}\n")
    return path


def test_the_file_itself_becomes_smaller(sqlite_store: Store, sqlite_config: Path, tmp_path: Path) -> None:
    fill(sqlite_store, 800, 3_000)
    sqlite_store.close()
    before = (tmp_path / "pal.sqlite").stat().st_size
    assert run(sqlite_config, "vacuum").exit_code == 0
    assert (tmp_path / "pal.sqlite").stat().st_size < before - 1_000_000


def old_file(path: Path) -> None:
    """As an older release made it: pages can't be cut off."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA auto_vacuum = NONE")
    db.execute("VACUUM")
    db.close()


def test_a_file_of_an_older_release_keeps_its_size_until_it_is_rewritten(
    sqlite_store: Store, sqlite_config: Path, tmp_path: Path
) -> None:
    fill(sqlite_store, 800, 3_000)
    sqlite_store.close()
    old_file(tmp_path / "pal.sqlite")
    told = run(sqlite_config, "vacuum").output
    assert "0.0 MB given back" in told and "palctl db vacuum --full" in told
    told = run(sqlite_config, "vacuum", "--full", "--json").output
    assert json.loads(told)["given_back_bytes"] > 1_000_000
    fill(sqlite_store, 801, 3_000)
    assert json.loads(run(sqlite_config, "vacuum", "--json").output)["given_back_bytes"] > 1_000_000


def test_without_room_nothing_is_rewritten(
    sqlite_store: Store, sqlite_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**6, 10**6, 1))
    done = run(sqlite_config, "vacuum", "--full")
    assert isinstance(done.exception, StoreError)
    assert "must be free in" in str(done.exception) and "nothing was rewritten" in str(done.exception)


def test_a_backup_is_the_database_as_it_was_at_one_moment(
    sqlite_store: Store, sqlite_config: Path, tmp_path: Path
) -> None:
    fill(sqlite_store, 10, 1_000)
    before = row_counts(sqlite_store)
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.02):
            Ledger(sqlite_store, "c").write([Intent(0, 100, Plain(2), 1, 1.0)] * 3)

    thread = threading.Thread(target=write)
    thread.start()
    done = run(sqlite_config, "backup", str(tmp_path / "copy.sqlite"))
    over.set()
    thread.join(60)
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE((tmp_path / "copy.sqlite").stat().st_mode) == 0o640
    copy = open_store(f"sqlite:///{tmp_path}/copy.sqlite")
    after = row_counts(copy)
    assert faults(copy) == []
    assert (after["steps"] - before["steps"]) % 3 == 0
    assert after | {"operations": 0, "steps": 0} == before | {"operations": 0, "steps": 0}
    copy.close()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_backup_replaces_nothing(sqlite_store: Store, sqlite_config: Path, tmp_path: Path) -> None:
    done = run(sqlite_config, "backup", str(tmp_path / "pal.sqlite"))
    assert isinstance(done.exception, BadInput) and "is there already" in str(done.exception)
    done = run(sqlite_config, "backup", str(tmp_path / "no" / "copy.sqlite"))
    assert isinstance(done.exception, BadInput) and "No such file" in str(done.exception)


def test_a_server_is_backed_up_by_its_own_tools(store: Store, tmp_path: Path) -> None:
    if store.path is None:
        with pytest.raises(BadInput, match="pg_dump or mariadb-dump"):
            backup(store, tmp_path / "copy")
    else:
        assert backup(store, tmp_path / "copy") > 0
