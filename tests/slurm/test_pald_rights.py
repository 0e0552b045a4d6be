"""pald as a user of its own: AdminLevel=Operator is all it needs; without that pald says so and holds nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import BIN, Pald, lua_settings, mark_of, pin_by_hand

# Stands for `pal`: a user of every Debian, to whom nothing belongs, with a uid of its own. Each process of the tests
# has another one: limits on processes count all that a user runs on the machine.
USERS = ("games", "news", "uucp", "lp", "list", "backup")
USER = USERS[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % len(USERS)]
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs", "--"]


@pytest.fixture
def home() -> Iterator[Path]:
    """Where that user may write; pytest's own directories are root's alone."""
    path = Path(tempfile.mkdtemp(prefix="pald-home-"))
    shutil.chown(path, USER)
    yield path
    shutil.rmtree(path)


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_pald_runs_as_an_operator_and_without_that_right_says_so_and_holds_nobody(
    make_minicluster: Callable[..., Minicluster], home: Path
) -> None:
    cluster = make_minicluster("--nodes", "3", "--dbd")
    lua_settings(cluster, alive_file=str(home / "alive"), wake_file=str(home / "wake"))
    cluster.client("sacctmgr", "-i", "add", "user", USER, "account=pal")
    files = {"cycle.alive_file": str(home / "alive"), "cycle.wake_file": str(home / "wake")}
    with Pald(cluster, home, files) as pald:
        pald.alive = home / "alive"
        pald.world = AS_USER
        says_what_to_do(pald)
        cluster.client("sacctmgr", "-i", "modify", "user", USER, "set", "adminlevel=operator")
        places_renews_and_undoes(pald)


def says_what_to_do(pald: Pald) -> None:
    pald.start()
    wait_for(pald.gives_leases, "lua is to give leases")
    job = pald.cluster.submit("--gres=gpu:1")
    assert mark_of(pald.cluster, job)
    said = pald.wait_said(r"denied|lets user")
    assert f"sacctmgr -i modify user {USER} set adminlevel=operator" in said
    wait_for(lambda: not pald.gives_leases(), "no more leases")
    free = pald.cluster.submit("--gres=gpu:1")
    assert not mark_of(pald.cluster, free)
    pald.cluster.wait_state(free, "RUNNING")
    pald.cluster.wait_state(job, "RUNNING", within=90)  # its lease has ended
    assert {i.outcome for i in pald.intents(job)} == {Outcome.REFUSED}
    assert pald.stop() == 0
    pald.cluster.client("scancel", str(job), str(free))


def places_renews_and_undoes(pald: Pald) -> None:
    cluster = pald.cluster
    cluster.drain("n3")
    pald.alive.write_text(f"{int(time.time())}\n")  # leases, though pald is not there yet
    lost = cluster.submit("--gres=gpu:1")
    assert mark_of(cluster, lost)
    pin_by_hand(cluster, [lost], "n3", (0,))
    pald.scores({"n2:1": 0.5})
    for path in pald.home.glob("pal.sqlite*"):
        shutil.chown(path, USER)
    pald.alive.unlink()
    pald.start()
    cluster.wait_state(lost, "RUNNING", within=90)
    assert [i.edit.kind for i in pald.intents(lost)][:2] == [EditKind.UNPIN, EditKind.PIN]
    wait_for(pald.gives_leases, "lua is to give leases")
    placed = cluster.submit("--gres=gpu:2")
    cluster.wait_state(placed, "RUNNING")
    assert pald.intents(placed, EditKind.PIN)[-1].outcome is Outcome.DONE
    waits = cluster.submit("-N3", "--gpus-per-node=1")
    wait_for(lambda: bool(pald.intents(waits, EditKind.RENEW)), "its lease is renewed", 60)
    assert {i.outcome for i in pald.intents(waits)} <= {None, Outcome.DONE}
    pald.stop()
    undo = [*AS_USER, str(BIN / "palctl"), "--config", str(pald.config), "undo", "--all"]
    done = subprocess.run(undo, capture_output=True, text=True, timeout=90, check=False)
    assert "1 of 1 jobs" in done.stdout, done.stderr


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_user_undoes_no_job_of_another_closes_no_node_and_gives_himself_no_share(
    make_minicluster: Callable[..., Minicluster], home: Path
) -> None:
    cluster = make_minicluster("--nodes", "3", "--dbd")
    lua_settings(cluster, alive_file=str(home / "alive"), lease="600")
    cluster.client("sacctmgr", "-i", "add", "user", USER, "account=pal")

    def as_user(*words: str | Path) -> subprocess.CompletedProcess[str]:
        run = [*AS_USER, *words]
        return subprocess.run(run, cwd="/", capture_output=True, text=True, timeout=90, check=False)

    fence = (
        "ReservationName=pal-move-1",
        "StartTime=now",
        "Duration=2",
        "Users=root",
        "Nodes=n1",
        "Flags=IGNORE_JOBS,OVERLAP",
    )
    deeds = (
        (cluster.bin / "scontrol", "create", "reservation", *fence),
        (cluster.bin / "sacctmgr", "-i", "modify", "account", "pal", "set", "fairshare=1000"),
    )
    with Pald(cluster, home) as pald:
        (home / "alive").write_text(f"{int(time.time())}\n")
        job = cluster.submit("--gres=gpu:1")
        mark = mark_of(cluster, job)
        undo = (BIN / "palctl", "--config", pald.config, "undo", str(job))
        done = as_user(*undo)
        assert mark and done.returncode == 75 and "not undone" in done.stderr
        assert mark_of(cluster, job) == mark and cluster.state(job) == "PENDING"
        assert [as_user(*deed).returncode == 0 for deed in deeds] == [False, False]
        cluster.client("sacctmgr", "-i", "modify", "user", USER, "set", "adminlevel=operator")
        done = as_user(*undo)
        assert done.returncode == 0, done.stderr
        cluster.wait_state(job, "RUNNING")
        done = as_user(*deeds[0])  # what a move needs
        assert done.returncode == 0, done.stderr
        cluster.client("scontrol", "delete", "ReservationName=pal-move-1")
