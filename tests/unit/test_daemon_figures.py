"""The figures' server on real sockets: whom it answers what, and what it does with who is silent, slow or loud."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.figures.serving import MOST_CLIENTS, Figures


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@contextlib.contextmanager
def serving(listen: str, text: Callable[[], bytes] = lambda: b"pal_x 1\n") -> Iterator[Figures]:
    figures = Figures(listen, text, Faults())
    with contextlib.closing(figures):
        figures.keep_serving()
        yield figures


@pytest.fixture(autouse=True)
def _sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, in less time."""
    monkeypatch.setattr("pal_slurm.daemon.desk.DEADLINE_S", 1.5)
    monkeypatch.setattr("pal_slurm.daemon.desk.LOOK_S", 0.1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def call(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    try:
        client.connect(str(path))
    except OSError:
        client.close()
        raise
    return client


def listens(path: Path) -> bool:
    with contextlib.suppress(OSError):
        call(path).close()
        return True
    return False


def ask(path: Path, request: bytes = b"GET /metrics HTTP/1.1\r\n\r\n") -> str:
    with call(path) as client:
        client.sendall(request)
        return heard(client)


def heard(client: socket.socket) -> str:
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(65536):
            said += chunk
    return said.decode()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK"),
        (b"GET /metrics?name[]=pal_x HTTP/1.0\r\n\r\n", "200 OK"),
        (b"GET /metrics HTTP/1.1\n\n", "200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405 Method Not Allowed"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request"),
        (b"\r\n\r\n", "400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 8192, "431 Too Large"),
    ],
)
def test_only_get_of_metrics_is_answered(path: Path, request_: bytes, status: str) -> None:
    with serving(f"unix:{path}"):
        wait_for(lambda: listens(path), "it listens")
        said = ask(path, request_)
        assert said.startswith(f"HTTP/1.1 {status}\r\n")
        assert said.endswith("pal_x 1\n") == (status == "200 OK")


def test_who_says_nothing_makes_way_and_is_hung_up_on(path: Path) -> None:
    with serving(f"unix:{path}"), contextlib.ExitStack() as stack:
        wait_for(lambda: listens(path), "it listens")
        before = threading.active_count()
        silent = [stack.enter_context(call(path)) for _ in range(4 * MOST_CLIENTS)]
        assert "pal_x 1" in ask(path)
        assert threading.active_count() == before
        assert [heard(client) for client in silent] == [""] * len(silent)  # each is hung up on, also the last ones


def test_who_drips_a_byte_at_a_time_gets_no_more_than_his_seconds(path: Path) -> None:
    with serving(f"unix:{path}"):
        wait_for(lambda: listens(path), "it listens")
        with call(path) as client, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for byte in iter(lambda: b"G", None):
                client.send(byte)
                time.sleep(0.1)
        assert "pal_x 1" in ask(path)


def test_who_does_not_read_his_answer_holds_nobody_up(path: Path) -> None:
    with serving(f"unix:{path}", lambda: b"x" * 2_000_000):
        wait_for(lambda: listens(path), "it listens")
        with call(path) as greedy:
            greedy.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert len(ask(path)) > 2_000_000


def test_who_asks_in_a_loop_gets_the_same_text(path: Path) -> None:
    written: list[int] = []

    def text() -> bytes:
        written.append(1)
        return b"pal_x 1\n"

    with serving(f"unix:{path}", text):
        wait_for(lambda: listens(path), "it listens")
        begun = time.monotonic()
        for _ in range(40):
            assert "pal_x 1" in ask(path)
        assert len(written) <= 1 + (time.monotonic() - begun)


def test_a_text_that_can_not_be_written_is_a_fault_and_the_next_is(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pal_slurm.daemon.desk.AGAIN_S", 0.1)
    faults, calls = Faults(), []

    def text() -> bytes:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        return b"pal_x 1\n"

    def served() -> bool:
        with contextlib.suppress(OSError):
            return "pal_x 1" in ask(path)
        return False

    with contextlib.closing(Figures(f"unix:{path}", text, faults)) as figures:
        figures.keep_serving()
        wait_for(served, "the next text is served")
    assert "figures: a fault of ours, ZeroDivisionError" in caplog.text
    assert faults.total == 1


def test_anothers_file_or_live_socket_is_left_and_a_dead_ones_is_replaced(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pal_slurm.daemon.desk.AGAIN_S", 0.1)
    caplog.set_level(logging.INFO, "pald")
    path.write_text("mine")
    with serving(f"unix:{path}") as figures:
        wait_for(lambda: bool(figures.trouble), "it is in trouble")
        assert path.read_text() == "mine"
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            other.listen(0)
            wait_for(lambda: figures.trouble == f"no figures on unix:{path}: Address already in use", "it is taken")
            assert other.getsockname() == str(path)
            time.sleep(0.3)
            inode = path.stat().st_ino
        wait_for(lambda: not figures.trouble, "a socket without a process is replaced")
        assert path.stat().st_ino != inode or "pal_x" in ask(path)
        assert "pal_x 1" in ask(path)
        assert path.stat().st_mode & 0o777 == 0o660
    assert not path.exists()
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
    assert "are served" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file somebody else's")
def test_a_dead_socket_of_another_user_is_left(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    os.chown(path, 65534, -1)
    with serving(f"unix:{path}") as figures:
        wait_for(lambda: "in use" in figures.trouble, "it is taken")
    assert path.exists()


@pytest.mark.parametrize(
    "listen", ["192.0.2.1:1", "no.such.host.invalid:9752", f"{'x' * 70}.y:9752", "unix:/nowhere/s"]
)
def test_an_address_that_can_not_be_had_is_trouble_and_no_more(listen: str) -> None:
    with serving(listen) as figures:
        wait_for(lambda: figures.trouble.startswith(f"no figures on {listen}: "), "it is in trouble")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_addresses_of_both_families_are_served(host: str) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with serving(f"{host}:{port}") as figures:
        if host == "[::1]" and not socket.has_ipv6:
            return

        def connects() -> bool:
            with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), port), 5) as client:
                client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                return "pal_x 1" in heard(client)
            return False

        wait_for(lambda: bool(figures.trouble) or connects(), "it serves")
        assert not figures.trouble or host == "[::1]"
