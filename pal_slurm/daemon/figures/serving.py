"""Serves the figures. In: an address, what writes the text. Out: HTTP answers to GET /metrics, from one thread.

Any local user may connect. Whatever he does costs a bounded part of one thread: few connections at a time, each for a
few seconds, a short request, a text that is written once a second at most. Who says nothing makes way for who comes
next. An address that is taken is a warning, and is tried again.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pal_slurm.config.address import Address
from pal_slurm.daemon.faults import Faults

log = logging.getLogger("pald")
MOST_CLIENTS = 16
DEADLINE_S = 5.0  # of a connection, from its first moment to its last
MOST_ASKED = 8192  # bytes of a request
BURST, REST_S = 8, 0.05  # so many new connections, then a rest: who connects in a loop does not keep us busy
AGAIN_S = 5.0  # until an address that is taken is tried again
FRESH_S = 1.0  # a text is given out for so long
LOOK_S = 0.5


@dataclass(eq=False)
class _Client:
    channel: socket.socket
    until: float
    asked: bytearray = field(default_factory=bytearray)
    reply: memoryview | None = None


class Figures:
    """`keep_serving` once a cycle restarts a dead thread; `trouble` says why nobody gets figures; empty: all do."""

    def __init__(self, listen: str, text: Callable[[], bytes], faults: Faults) -> None:
        self.listen = listen
        self.trouble = ""
        self._text = text
        self._faults = faults
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._not_before = 0.0

    def keep_serving(self) -> None:
        running = self._thread is not None and self._thread.is_alive()
        if not self.listen or running or self._stop.is_set() or time.monotonic() < self._not_before:
            return
        thread = threading.Thread(target=self._run, name="figures", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is to be had now
            self._not_before = time.monotonic() + AGAIN_S
            self._troubled(str(error))
        else:
            self._thread = thread

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(4 * LOOK_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._faults.contained("figures"):
                self._serve()
            self._stop.wait(AGAIN_S)

    def _serve(self) -> None:
        """Until we are stopped, or the address is no longer ours."""
        address = Address(self.listen)
        try:
            listener = address.open()
        except (OSError, ValueError) as error:
            self._troubled(getattr(error, "strerror", None) or str(error))
            return
        if self.trouble:
            log.info("metrics.listen: figures are served on %s now", self.listen)
        self.trouble = ""
        try:
            with contextlib.closing(_Desk(listener, self._text)) as desk:
                looked = time.monotonic()
                while not self._stop.is_set():
                    desk.turn()
                    if time.monotonic() - looked >= AGAIN_S:
                        looked = time.monotonic()
                        if address.lost():
                            return
        finally:
            address.leave()

    def _troubled(self, why: str) -> None:
        """One warning, however often it is tried."""
        said = f"no figures on {self.listen}: {why}"
        if said != self.trouble:
            log.warning("metrics.listen: %s; tried again every %.0f s", said, AGAIN_S)
        self.trouble = said


class _Desk:
    """The connections at one listening socket."""

    def __init__(self, listener: socket.socket, text: Callable[[], bytes]) -> None:
        self._listener = listener
        self._text = text
        self._written, self._written_at = b"", float("-inf")
        self._selector = selectors.DefaultSelector()
        self._clients: list[_Client] = []  # the oldest first
        self._deaf_until = 0.0

    def turn(self) -> None:
        """Wait for a moment, and do what is due."""
        now = time.monotonic()
        for client in [c for c in self._clients if c.until <= now]:
            self._drop(client)
        listening = self._listener in self._selector.get_map()
        if now >= self._deaf_until and not listening:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif now < self._deaf_until and listening:
            self._selector.unregister(self._listener)
        due = min([LOOK_S, *(c.until - now for c in self._clients[:1]), *([REST_S] if now < self._deaf_until else [])])
        for key, _ in self._selector.select(max(0.0, due)):
            if key.fileobj is self._listener:
                self._welcome()
            elif key.data in self._clients:  # not dropped since, for one that came later
                self._serve(key.data)

    def close(self) -> None:
        for client in list(self._clients):
            self._drop(client)
        self._selector.close()
        self._listener.close()

    def _welcome(self) -> None:
        self._deaf_until = time.monotonic() + REST_S
        for _ in range(BURST):
            try:
                channel, _address = self._listener.accept()
            except OSError:  # nobody else waits, or no descriptor is left
                return
            if len(self._clients) >= MOST_CLIENTS:
                self._drop(self._clients[0])
            channel.setblocking(False)
            client = _Client(channel, time.monotonic() + DEADLINE_S)
            self._clients.append(client)
            self._selector.register(channel, selectors.EVENT_READ, client)
            self._serve(client)

    def _serve(self, client: _Client) -> None:
        """Take in what has come, or send what can be sent."""
        try:
            if client.reply is None and not self._hear(client):
                return
            assert client.reply is not None
            client.reply = client.reply[client.channel.send(client.reply) :]
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        if not client.reply:
            self._drop(client)

    def _hear(self, client: _Client) -> bool:
        """True when there is something to answer."""
        heard = client.channel.recv(MOST_ASKED)
        if not heard:
            raise ConnectionResetError
        client.asked += heard
        whole = b"\r\n\r\n" in client.asked or b"\n\n" in client.asked
        if not whole and len(client.asked) < MOST_ASKED:
            return False
        client.reply = memoryview(self._answer(bytes(client.asked)) if whole else _say("431 Too Large"))
        self._selector.modify(client.channel, selectors.EVENT_WRITE, client)
        return True

    def _answer(self, asked: bytes) -> bytes:
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

    def _drop(self, client: _Client) -> None:
        self._clients.remove(client)
        self._selector.unregister(client.channel)
        client.channel.close()


def _say(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
