"""A socket and one thread that answers at it. In: an address, what answers. Out: one reply to each question.

Any local user may connect. Whatever he does costs a bounded part of one thread: few connections at a time, fewer of any
one user, each for a few seconds, a short question. Who says nothing makes way for who comes next. An address that is
taken is a warning, and is tried again.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from pal_slurm.config.address import Address
from pal_slurm.daemon.faults import Faults

log = logging.getLogger("pald")
DEADLINE_S = 5.0  # of a connection, from its first moment to its last
BURST, REST_S = 8, 0.05  # so many new connections, then a rest: who connects in a loop does not keep us busy
AGAIN_S = 5.0  # until an address that is taken is tried again
LOOK_S = 0.5


class Answers(Protocol):
    most: int  # connections at a time
    most_each: int  # of one user
    most_asked: int  # bytes of a question

    def who(self, channel: socket.socket) -> int:
        """Whose connection it is: those of one user never push out another's. OSError: gone already."""

    def whole(self, asked: bytes) -> bool:
        """Nothing more has to come."""

    def reply(self, asked: bytes, who: int) -> bytes: ...

    def too_long(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Posting:
    """What is said of a desk in the log and by `palctl status`."""

    name: str  # of the thread
    key: str  # of pal.yaml
    without: str  # "no figures"
    works: str  # "figures are served"


@dataclass(eq=False)
class _Client:
    channel: socket.socket
    who: int
    until: float
    asked: bytearray = field(default_factory=bytearray)
    reply: memoryview | None = None


class Desk:
    """`keep_serving` once a cycle restarts a dead thread; `trouble` says why nobody is answered; empty: all are."""

    def __init__(self, address: Address, answers: Answers, posting: Posting, faults: Faults) -> None:
        self.address = address
        self.trouble = ""
        self._answers = answers
        self._posting = posting
        self._faults = faults
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._not_before = 0.0

    def keep_serving(self) -> None:
        running = self._thread is not None and self._thread.is_alive()
        if not self.address.listen or running or self._stop.is_set() or time.monotonic() < self._not_before:
            return
        thread = threading.Thread(target=self._run, name=self._posting.name, daemon=True)
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
            with self._faults.contained(self._posting.name):
                self._serve()
            self._stop.wait(AGAIN_S)

    def _serve(self) -> None:
        """Until we are stopped, or the address is no longer ours."""
        try:
            listener = self.address.open()
        except (OSError, ValueError) as error:
            self._troubled(getattr(error, "strerror", None) or str(error))
            return
        if self.trouble:
            log.info("%s: %s on %s now", self._posting.key, self._posting.works, self.address.listen)
        self.trouble = ""
        try:
            with contextlib.closing(_Counter(listener, self._answers)) as counter:
                looked = time.monotonic()
                while not self._stop.is_set():
                    counter.turn()
                    if time.monotonic() - looked >= AGAIN_S:
                        looked = time.monotonic()
                        if self.address.lost():
                            return
        finally:
            self.address.leave()

    def _troubled(self, why: str) -> None:
        """One warning, however often it is tried."""
        said = f"{self._posting.without} on {self.address.listen}: {why}"
        if said != self.trouble:
            log.warning("%s: %s; tried again every %.0f s", self._posting.key, said, AGAIN_S)
        self.trouble = said


class _Counter:
    """The connections at one listening socket."""

    def __init__(self, listener: socket.socket, answers: Answers) -> None:
        self._listener = listener
        self._answers = answers
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
            try:
                who = self._answers.who(channel)
            except OSError:
                channel.close()
                continue
            self._make_room(who)
            channel.setblocking(False)
            client = _Client(channel, who, time.monotonic() + DEADLINE_S)
            self._clients.append(client)
            self._selector.register(channel, selectors.EVENT_READ, client)
            self._serve(client)

    def _make_room(self, who: int) -> None:
        """The oldest goes: of those of the same user, where he has as many as may be."""
        his = [client for client in self._clients if client.who == who]
        if len(his) >= self._answers.most_each:
            self._drop(his[0])
        elif len(self._clients) >= self._answers.most:
            self._drop(self._clients[0])

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
        most = self._answers.most_asked
        heard = client.channel.recv(most)
        if not heard:
            raise ConnectionResetError
        client.asked += heard
        whole = self._answers.whole(bytes(client.asked))
        if not whole and len(client.asked) < most:
            return False
        answer = self._answers.reply(bytes(client.asked), client.who) if whole else self._answers.too_long()
        client.reply = memoryview(answer)
        self._selector.modify(client.channel, selectors.EVENT_WRITE, client)
        return True

    def _drop(self, client: _Client) -> None:
        self._clients.remove(client)
        self._selector.unregister(client.channel)
        client.channel.close()
