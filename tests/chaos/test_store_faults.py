"""What can go wrong with the database: each fault is one clear sentence, and nothing committed is lost (P3)."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.errors import StoreError
from pal_slurm.model import Intent, Outcome, Plain
from pal_slurm.store import Ledger, Store, engine, open_store
from pal_slurm.store.health import faults
from pal_slurm.store.migrate import upgrade_url
from pal_slurm.store.place import check_place, file_system
from pal_slurm.store.tables import HEAD

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/pal.sqlite"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, create=True)
    yield opened
    opened.close()


def intent(job: int = 1) -> Intent:
    return Intent(0, 100, Plain(job), 1, 1.0)


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-c", code, *words]


def test_a_locked_database_is_said_to_be_locked_and_works_again_afterwards(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LOCK_WAIT_S", 0.1)
    impatient = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    other = sqlite3.connect(tmp_path / "pal.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="is locked by another program"):
        Ledger(impatient, "c").write([intent()])
    assert Ledger(impatient, "c").watched() == []  # readers are not kept out
    other.execute("ROLLBACK")
    other.close()
    assert len(Ledger(impatient, "c").write([intent()])) == 1
    impatient.close()


def test_a_database_that_another_program_writes_can_be_opened_and_read(store: Store, url: str, tmp_path: Path) -> None:
    Ledger(store, "c").write([intent()])
    other = sqlite3.connect(tmp_path / "pal.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    reader = open_store(url)
    assert len(Ledger(reader, "c").watched()) == 1
    reader.close()
    other.execute("ROLLBACK")
    other.close()


def test_a_database_that_must_not_be_written_is_said_to_be_read_only(store: Store, tmp_path: Path) -> None:
    Ledger(store, "c").write([intent()])
    store.close()
    code = (
        "import os, sys\n"
        "import sqlalchemy.dialects.sqlite, sqlalchemy.pool\n"
        "from pal_slurm.errors import StoreError\n"
        "from pal_slurm.model import *\n"
        "from pal_slurm.store import *\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    Ledger(open_store(sys.argv[1]), 'c').write([Intent(0, 1, Plain(1), 1, 1.0)])\n"
        "except StoreError as e: print(e)\n"
    )
    public = Path(shutil.copytree(tmp_path, f"/tmp/pal-read-only-{os.getpid()}"))
    try:
        (public / "pal.sqlite").chmod(0o444)
        public.chmod(0o555)
        done = subprocess.run(
            python(code, f"sqlite:///{public}/pal.sqlite"),
            capture_output=True, text=True, timeout=60, check=True, cwd=PROJECT,
        )  # fmt: skip
    finally:
        public.chmod(0o755)
        shutil.rmtree(public)
    assert "can't be written" in done.stdout or "can't be opened" in done.stdout, done
    assert "must belong to the user that pald runs as" in done.stdout


def test_a_missing_directory_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"directory .* of the database: No such file"):
        open_store(f"sqlite:///{tmp_path}/no/pal.sqlite", create=True)
    with pytest.raises(StoreError, match=r"there is no database at .*palctl db upgrade"):
        open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    assert not (tmp_path / "pal.sqlite").exists()


def test_a_full_disk_loses_nothing_and_heals(store: Store) -> None:
    """SQLite's own page limit gives the very error that a full disk gives (SQLITE_FULL)."""
    ledger = Ledger(store, "c")
    first = ledger.write([intent()])
    with store.reading() as db:
        pages = db.exec_driver_sql("PRAGMA page_count").scalar_one()
        db.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="the disk is full; nothing was written"):
        ledger.write([intent(job) for job in range(5000)])
    assert ledger.watched() == first
    with store.reading() as db:
        db.exec_driver_sql("PRAGMA max_page_count = 1000000")
    assert len(ledger.write([intent(job) for job in range(5000)])) == 5000


def test_a_disk_that_is_really_full_is_said_to_be_full(tmp_path: Path) -> None:
    """A tmpfs of 1 MB in a mount namespace of its own."""
    code = (
        "import sys\n"
        "from pal_slurm.errors import StoreError\n"
        "from pal_slurm.model import *\n"
        "from pal_slurm.store import *\n"
        "ledger = Ledger(open_store(sys.argv[1], create=True), 'c')\n"
        "many = [Intent(0, 1, Pin(j, nodes=('n' * 200,)), 1, 1.0) for j in range(500)]\n"
        "held = 0\n"
        "try:\n"
        "    while True: held += len(ledger.write(many))\n"
        "except StoreError as e: print(e)\n"
        "print(held == len(ledger.watched()))\n"
    )
    script = f'mount -t tmpfs -o size=1m,mode=0755 tmpfs {tmp_path} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *python(code, f"sqlite:///{tmp_path}/pal.sqlite")],
        capture_output=True, text=True, timeout=120, check=False, cwd=PROJECT,
    )  # fmt: skip
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(f"this user may not make a mount namespace: {done.stderr.strip()}")
    assert "the disk is full" in done.stdout, done.stderr
    assert done.stdout.endswith("True\n")


@pytest.mark.parametrize("damage", ["header", "middle", "text"])
def test_a_damaged_database_is_said_to_be_damaged(store: Store, url: str, tmp_path: Path, damage: str) -> None:
    Ledger(store, "c").write([intent(job) for job in range(2000)])
    store.close()
    path = tmp_path / "pal.sqlite"
    data = bytearray(path.read_bytes())
    if damage == "header":
        data[:16] = b"x" * 16
    elif damage == "text":
        data = bytearray(b"this is a shopping list\n" * 400)
    else:
        data[4096:] = bytes(b ^ 0xFF for b in data[4096:])
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged|is no SQLite database|damaged") as caught:
        broken = open_store(url)
        try:
            Ledger(broken, "c").watched()
        finally:
            broken.close()
    assert "restore a backup" in str(caught.value)


def test_flipped_bytes_anywhere_never_end_in_a_traceback(store: Store, url: str, tmp_path: Path) -> None:
    Ledger(store, "c").write([intent(job) for job in range(500)])
    store.close()
    path = tmp_path / "pal.sqlite"
    sound = path.read_bytes()
    rng = random.Random(5)
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(20):
            data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        path.write_bytes(data)
        try:
            opened = open_store(url)
        except StoreError:
            continue
        try:
            Ledger(opened, "c").watched()
            faults(opened)
        except StoreError:
            pass
        finally:
            opened.close()


def test_a_newer_schema_is_refused_and_left_alone(store: Store, url: str) -> None:
    with store.writing() as db:
        db.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    store.close()
    with pytest.raises(StoreError, match="written by a newer one"):
        open_store(url, create=True)
    with pytest.raises(StoreError, match="newer than"):
        upgrade_url(url)


def test_an_older_schema_asks_for_the_upgrade(store: Store, url: str) -> None:
    with store.writing() as db:
        db.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    store.close()
    with pytest.raises(StoreError, match=f"needs {HEAD}; run: palctl db upgrade"):
        open_store(url, create=True)


def test_the_database_of_another_program_is_left_alone(url: str, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "pal.sqlite")
    other.execute("CREATE TABLE recipes (id INTEGER)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="belongs to another program"):
        open_store(url, create=True)


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"36 35 {os.major(device)}:{os.minor(device)} / /home rw shared:1 - nfs4 server:/home rw\n")
    with pytest.raises(StoreError, match=r"network file system \(nfs4\)"):
        check_place(tmp_path / "pal.sqlite", mounts)
    mounts.write_text("36 35 999:99 / /home rw - nfs4 server:/home rw\n")
    check_place(tmp_path / "pal.sqlite", mounts)
    assert file_system(Path("/proc").stat().st_dev) == "proc"


def test_a_database_that_everybody_may_write_is_refused(store: Store, url: str, tmp_path: Path) -> None:
    store.close()
    (tmp_path / "pal.sqlite").chmod(0o666)
    with pytest.raises(StoreError, match="can be written by everybody"):
        open_store(url)


def test_a_database_that_was_removed_under_us_takes_no_intent(store: Store, url: str, tmp_path: Path) -> None:
    ledger = Ledger(store, "c")
    ledger.write([intent()])
    for path in tmp_path.glob("pal.sqlite*"):
        path.unlink()
    with pytest.raises(StoreError, match="was removed or replaced"):
        ledger.write([intent()])
    fresh = open_store(url, create=True)
    with pytest.raises(StoreError, match="was removed or replaced"):
        ledger.watched()
    assert Ledger(fresh, "c").watched() == []
    fresh.close()


# One write(2) per line: print() makes several of them where PYTHONUNBUFFERED is set, and a kill in between leaves "i 1"
# of "i 12".
WRITER = """
import os, sys
from pal_slurm.model import *
from pal_slurm.store import *
ledger = Ledger(open_store(sys.argv[1], create=True), "c")
job = 0
while True:
    job += 1
    written = ledger.write([Intent(0, 100, Plain(10 * job + k), 1, 1.0) for k in range(3)])
    os.write(1, b"i %d\\n" % job)
    ledger.outcome([(i, Outcome.DONE, "") for i in written], 2.0)
    os.write(1, b"o %d\\n" % job)
"""


def test_killed_at_any_moment_whatever_was_said_to_be_written_is_there(url: str) -> None:
    rng = random.Random(11)
    for _ in range(12):
        writer = subprocess.Popen(python(WRITER, url), stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        assert writer.stdout is not None
        said = [writer.stdout.readline()]
        deadline = time.monotonic() + rng.uniform(0.0, 0.15)
        while time.monotonic() < deadline:
            said.append(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        said += writer.stdout.readlines()
        writer.stdout.close()
        assert writer.wait(60) == -signal.SIGKILL, "the writer ended by itself"
        assert all(line.endswith("\n") for line in said)
        survivor = open_store(url)
        found = {i.edit.job: i for i in Ledger(survivor, "c").watched()}
        for line in said:
            kind, number = line.split()
            trio = [found[10 * int(number) + k] for k in range(3)]
            assert kind == "i" or all(i.outcome is Outcome.DONE for i in trio)
        assert len(found) % 3 == 0  # a transaction is there whole or not at all
        assert faults(survivor) == []
        Ledger(survivor, "c").outcome([(i, Outcome.DONE, "") for i in found.values()], 1.0, close=True)
        assert Ledger(survivor, "c").watched() == []
        survivor.close()


@pytest.mark.every(3)
def test_killed_while_the_schema_is_made_it_is_made_whole_the_next_time(tmp_path: Path) -> None:
    rng = random.Random(3)
    code = "import sys\nfrom pal_slurm.store.migrate import upgrade_url\n"
    code += "print('go', flush=True)\nupgrade_url(sys.argv[1])\n"
    for round_ in range(15):
        url = f"sqlite:///{tmp_path}/{round_}.sqlite"
        upgrader = subprocess.Popen(python(code, url), stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        assert upgrader.stdout is not None
        upgrader.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(upgrader.pid, signal.SIGKILL)
        upgrader.stdout.close()
        upgrader.wait(30)
        opened = open_store(url, create=True)
        assert faults(opened) == []
        assert len(Ledger(opened, "c").write([intent()])) == 1
        opened.close()
