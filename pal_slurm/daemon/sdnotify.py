"""Tells systemd how we are. In: state words. Out: one datagram to $NOTIFY_SOCKET, or nothing where there is none."""

from __future__ import annotations

import os
import socket

from pal_slurm.words import plain


def notify(*states: str) -> bool:
    """Send e.g. `READY=1`, `WATCHDOG=1`, `STATUS=...`; True when systemd took it. Never raises: a missing listener
    is no reason to stop placing jobs."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    message = "\n".join(map(plain, states)).encode(errors="replace")  # a line end in a text would be a state of its own
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall(message)
    except OSError:
        return False
    return True
