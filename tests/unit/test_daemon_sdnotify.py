"""sd_notify against a real datagram socket."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pal_slurm.daemon.sdnotify import notify


def test_states_arrive_in_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        assert notify("READY=1", "STATUS=fine")
        assert listener.recv(100) == b"READY=1\nSTATUS=fine"


def test_a_line_end_in_a_text_makes_no_state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        assert notify("WATCHDOG=1", "STATUS=job x\nSTOPPING=1\x1b[2J")
        assert listener.recv(100) == b"WATCHDOG=1\nSTATUS=job x STOPPING=1 [2J"


def test_no_listener_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify("READY=1")
