"""Figures are never worth the daemon: whatever any local user does to their port, pald places jobs."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm import sandbox
from tests.slurm.minicluster import PROJECT, Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pald_rights import AS_USER, USER, home  # noqa: F401

pytestmark = pytest.mark.every(2)

ASKED = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def answer(to: str | int, asked: bytes = ASKED) -> str:
    """What the figures' port, or socket, says to an honest client; empty when there is nobody."""
    family, address = (socket.AF_UNIX, to) if isinstance(to, str) else (socket.AF_INET, ("127.0.0.1", to))
    said = bytearray()
    with contextlib.suppress(OSError), socket.socket(family) as client:
        client.settimeout(10)
        client.connect(address)
        client.sendall(asked)
        while chunk := client.recv(65536):
            said += chunk
    return said.decode()


def serves(to: str | int) -> bool:
    return "pal_build_info" in answer(to)


def threads(pald: Pald) -> int:
    assert pald.process is not None
    return len(list(Path(f"/proc/{pald.process.pid}/task").iterdir()))


@contextlib.contextmanager
def hostile(port: int, silent: int = 200, slow: int = 50) -> Iterator[None]:
    """So many clients that say nothing, and so many that say a byte now and then; all connect again when hung up on."""
    over = threading.Event()

    def torment() -> None:
        clients: list[socket.socket] = []
        while not over.is_set():
            for client in clients[:slow]:
                with contextlib.suppress(OSError):
                    client.send(b"G")
            for client in list(clients):
                with contextlib.suppress(OSError):
                    if not client.recv(1):
                        raise ConnectionResetError
                    continue
                if _hung_up(client):
                    clients.remove(client)
                    client.close()
            while len(clients) < silent + slow and not over.is_set():
                client = socket.socket()
                client.settimeout(2)
                with contextlib.suppress(OSError):
                    client.connect(("127.0.0.1", port))
                    client.setblocking(False)
                    clients.append(client)
            over.wait(0.5)
        for client in clients:
            client.close()

    thread = threading.Thread(target=torment)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _hung_up(client: socket.socket) -> bool:
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_silent_and_slow_clients_cost_no_thread_and_no_cycle(minicluster: Minicluster, tmp_path: Path) -> None:
    port = free_port()
    with Pald(minicluster, tmp_path, {"metrics.listen": f"127.0.0.1:{port}"}) as pald:
        pald.start()
        wait_for(lambda: serves(port), "the figures are served")
        before = threads(pald)
        with hostile(port):
            for _ in range(3):
                pald.wait_cycle()
                assert threads(pald) <= before + 2, "a thread per client"  # learning may be at work
                assert serves(port)
            job = minicluster.submit("--gres=gpu:1")
            minicluster.wait_state(job, "RUNNING")
            assert pald.intents(job)
        assert pald.stop() == 0
    assert "Traceback" not in pald.said()


@pytest.mark.slurm("22.05")
def test_a_pald_that_may_have_few_threads_outlives_them(
    make_minicluster: Callable[..., Minicluster],
    home: Path,  # noqa: F811
) -> None:
    """As under the unit's TasksMax, learning in a thread: the thread that it did not get was pald's end."""
    cluster = make_minicluster("--nodes", "2", "--dbd")
    cluster.client("sacctmgr", "-i", "add", "user", USER, "account=pal", "adminlevel=operator")
    port = free_port()
    (home / "spool").mkdir()
    shutil.chown(home / "spool", USER)
    changes = {
        "cycle.alive_file": str(home / "alive"),
        "cycle.wake_file": str(home / "wake"),
        "cluster.bin_dir": "/usr/bin",
        "profile.spool": str(home / "spool"),
        "learning.interval_s": 1,
        "metrics.listen": f"127.0.0.1:{port}",
    }
    with Pald(cluster, home, changes) as pald:
        script = sandbox.mounts(home, cluster.dir, PROJECT, Path(sys.prefix).resolve(), Path(sys.base_prefix))
        limited = [*AS_USER[:-1], "--bounding-set=-all", "--", "prlimit", "--nproc=24", "--"]
        pald.world = ["unshare", "--mount", "sh", "-euc", script, "sh", *limited]
        pald.start(env={"SLURM_CONF": str(cluster.etc / "slurm.conf"), "OPENBLAS_NUM_THREADS": "1"})
        wait_for(lambda: serves(port), "the figures are served")
        with hostile(port):
            for _ in range(5):
                pald.wait_cycle()
            assert serves(port)
        assert pald.stop() == 0
    assert "Traceback" not in pald.said()


@pytest.mark.slurm("24.11", slow=("22.05", "26.05"))
def test_a_port_that_is_taken_is_a_warning_and_served_when_it_is_free(minicluster: Minicluster, tmp_path: Path) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        port = int(thief.getsockname()[1])
        with Pald(minicluster, tmp_path, {"metrics.listen": f"127.0.0.1:{port}"}) as pald:
            pald.start()
            job = minicluster.submit("--gres=gpu:1")
            minicluster.wait_state(job, "RUNNING")
            pald.wait_cycle()
            taken = rf"<4>metrics\.listen: .*127\.0\.0\.1:{port}.*in use"
            assert len(re.findall(taken, pald.said())) == 1
            wait_for(lambda: f"127.0.0.1:{port}" in pald.palctl("status"), "palctl status says it")
            thief.close()
            wait_for(lambda: serves(port), "the figures are served")
            wait_for(lambda: f"127.0.0.1:{port}" not in pald.palctl("status"), "palctl status no longer says it")


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_second_pald_stands_by_without_the_port_and_takes_it_when_it_is_free(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    port = free_port()
    settings = {"metrics.listen": f"127.0.0.1:{port}"}
    with Pald(minicluster, tmp_path, settings) as first, Pald(minicluster, tmp_path, settings, name="second") as second:
        first.start()
        wait_for(lambda: "\npal_leader 1.0" in answer(port), "the first serves its figures")
        second.spawn()
        second.wait_said(r"metrics\.listen: .*in use")
        second.wait_said(r"standing by: .* holds .*pald\.lock")
        first.kill()
        second.wait_said(r"\d+ pending")
        wait_for(lambda: "\npal_leader 1.0" in answer(port), "the second serves its figures")


@pytest.mark.slurm("26.05")
def test_a_unix_socket_serves_its_group_and_one_of_a_dead_pald_is_replaced(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    path = tmp_path / "metrics.sock"
    with Pald(minicluster, tmp_path, {"metrics.listen": f"unix:{path}"}) as pald:
        pald.start()
        wait_for(lambda: serves(str(path)), "the figures are served")
        assert path.stat().st_mode & 0o777 == 0o660
        pald.kill()
        assert path.exists()
        assert not serves(str(path))
        pald.start()
        wait_for(lambda: serves(str(path)), "the figures are served again")
        path.unlink()
        wait_for(lambda: serves(str(path)), "a socket that somebody removed is made again")
        assert pald.stop() == 0
        assert not path.exists()
        path.write_text("mine")
        pald.start()
        pald.wait_said(r"metrics\.listen: .*metrics\.sock")
        pald.wait_cycle()
        assert path.read_text() == "mine"
