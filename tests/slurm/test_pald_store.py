"""A database that can't be written: no edit without a record, a clear sentence, and recovery by itself (P3)."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from pal_slurm.store import Ledger, open_store
from tests.databases import Servers, each
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald

RELEASE = pytest.mark.slurm("26.05")


@RELEASE
def test_while_the_database_is_locked_nothing_is_edited_and_then_it_goes_on(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    journal = Journal(minicluster)
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        other = sqlite3.connect(pald.database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        job = minicluster.submit("--gres=gpu:1")
        said = pald.wait_said("is locked by another program")
        assert "nothing is written to Slurm without a record" in said
        pald.wait_said("is locked by another program")
        assert journal.edited() == set()
        other.execute("ROLLBACK")
        other.close()
        minicluster.wait_state(job, "RUNNING")
        assert len(pald.intents(job, EditKind.PIN)) == 1


@RELEASE
def test_a_full_disk_stops_the_edits_until_there_is_room(minicluster: Minicluster, tmp_path: Path) -> None:
    """The state directory is a tmpfs of 2 MB in a mount namespace of pald's own."""
    journal = Journal(minicluster)
    home = tmp_path / "state"
    home.mkdir()
    with Pald(minicluster, tmp_path, {"state_dir": str(home)}) as pald:
        script = 'mount -t tmpfs -o size=2m,mode=0755 tmpfs "$0" && exec "$@"'
        pald.world = ["unshare", "-m", "sh", "-c", script, str(home)]
        pald.start()
        inside(pald, "sh", "-c", f"cat /dev/zero > {home}/ballast 2>/dev/null || true")
        pald.mark()
        jobs = {minicluster.submit("--gres=gpu:1", wrap="sleep 1") for _ in range(30)}
        pald.wait_said("the disk is full; nothing was written")
        before = journal.edited()
        pald.mark()
        pald.wait_said("the disk is full.*nothing is written to Slurm without a record")
        assert journal.edited() == before and len(before) < 30
        inside(pald, "rm", f"{home}/ballast")
        wait_for(lambda: not minicluster.client("squeue", "-h"), "no job is left", 60)
        told = minicluster.client("squeue", "-h", "-t", "CD", "-o", "%A").split()
        assert set(map(int, told)) >= jobs
        pald.send(signal.SIGSTOP)  # its files are copied as they are at one moment
        assert pald.process is not None
        for path in Path(f"/proc/{pald.process.pid}/root{home}").glob("pal.sqlite*"):
            shutil.copy(path, tmp_path)
        recorded = {intent.edit.job for intent in pald.ledger()}
        assert recorded and journal.edited() <= recorded


def inside(pald: Pald, *command: str) -> None:
    """Run in pald's mount namespace."""
    assert pald.process is not None
    argv = ["nsenter", "-t", str(pald.process.pid), "-m", *command]
    subprocess.run(argv, check=True, capture_output=True, timeout=30)


@RELEASE
def test_a_read_only_database_is_told_and_keeps_pald_from_starting(minicluster: Minicluster, tmp_path: Path) -> None:
    journal = Journal(minicluster)
    home = tmp_path / "state"
    home.mkdir()
    with Pald(minicluster, tmp_path, {"state_dir": str(home)}) as pald:
        pald.database = home / "pal.sqlite"
        assert pald.once() == 0
        with minicluster.leases():
            job = minicluster.submit("--gres=gpu:1")
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        pald.world = ["unshare", "-m", "sh", "-c", script, str(home)]
        assert pald.once() == 74
        assert re.search("database .* can't be (written|opened)", pald.said().splitlines()[-1])
        assert journal.edited() == set()
        pald.world = []
        pald.start()
        minicluster.wait_state(job, "RUNNING")
        assert len(pald.intents(job, EditKind.PIN)) == 1


@RELEASE
@pytest.mark.parametrize("name", each("postgresql", "mariadb"))
def test_while_the_database_server_is_down_nothing_is_edited_and_then_it_goes_on(
    minicluster: Minicluster, tmp_path: Path, servers: Servers, name: str
) -> None:
    journal, server = Journal(minicluster), servers[name]
    url = server.fresh()
    with Pald(minicluster, tmp_path, {"database.url": url}) as pald:
        pald.start()
        server.stop()
        job = minicluster.submit("--gres=gpu:1")
        said = pald.wait_said("can't be reached, or went away")
        assert "nothing is written to Slurm without a record" in said
        assert journal.edited() == set()
        server.start()
        minicluster.wait_state(job, "RUNNING")
        store = open_store(url)
        assert [i.edit.kind for i in Ledger(store, pald.cluster_name).of_job(job)].count(EditKind.PIN) == 1
        store.close()
        assert pald.stop() == 0
