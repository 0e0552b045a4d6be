"""Serves the figures. In: an address, what writes the text. Out: HTTP answers to GET /metrics.

A text is written once a second at most, whoever asks how often; the rest is any desk's.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from pal_slurm.config.address import Address
from pal_slurm.daemon.desk import Desk, Posting
from pal_slurm.daemon.faults import Faults

MOST_CLIENTS = 16
MOST_ASKED = 8192  # bytes of a request
FRESH_S = 1.0  # a text is given out for so long
POSTING = Posting("figures", "metrics.listen", "no figures", "figures are served")


class Figures(Desk):
    def __init__(self, listen: str, text: Callable[[], bytes], faults: Faults) -> None:
        super().__init__(Address(listen), _Readings(text), POSTING, faults)


class _Readings:
    most = most_each = MOST_CLIENTS
    most_asked = MOST_ASKED

    def __init__(self, text: Callable[[], bytes]) -> None:
        self._text = text
        self._written, self._written_at = b"", float("-inf")

    def who(self, channel: socket.socket) -> int:
        return 0

    def whole(self, asked: bytes) -> bool:
        return b"\r\n\r\n" in asked or b"\n\n" in asked

    def too_long(self) -> bytes:
        return _say("431 Too Large")

    def reply(self, asked: bytes, who: int) -> bytes:
        words = asked.splitlines()[0].split(b" ") if asked.strip() else []
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _say("400 Bad Request")
        if words[0] != b"GET":
            return _say("405 Method Not Allowed", "Allow: GET")
        if words[1].partition(b"?")[0] != b"/metrics":
            return _say("404 Not Found")
        if time.monotonic() - self._written_at >= FRESH_S:
            self._written, self._written_at = self._text(), time.monotonic()
        return _say("200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8", body=self._written)


def _say(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
