"""What one asker may have of the page: few answers at a time, half of the places to wait or to listen, some seconds."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from pal_slurm.page.events import Events
from pal_slurm.page.serving import settings_of
from pal_slurm.page.turns import Crowded, Turns


def test_one_asker_s_questions_wait_behind_his_own_and_nobody_else_s() -> None:
    async def ask(turns: Turns, who: str, done: list[str], hold: asyncio.Event | None = None) -> None:
        async with turns.of(who):
            if hold is not None:
                await hold.wait()
            done.append(who)

    async def day() -> None:
        turns, hold, done = Turns(at_once=2, most=20), asyncio.Event(), list[str]()
        many = [asyncio.create_task(ask(turns, "alice", done, hold)) for _ in range(10)]
        await asyncio.sleep(0)
        with pytest.raises(Crowded, match="more at a time than is answered to one"):
            await ask(turns, "alice", done)
        await ask(turns, "bob", done)
        assert done == ["bob"]
        hold.set()
        await asyncio.gather(*many)
        assert done.count("alice") == 10
        await ask(turns, "alice", done)
        assert not turns._lines and turns._asking == 0

    asyncio.run(day())


def test_of_an_asker_as_many_are_answered_at_a_time_as_may_be() -> None:
    async def day() -> int:
        turns, now, most = Turns(at_once=2, most=64), 0, 0

        async def ask() -> None:
            nonlocal now, most
            async with turns.of("alice"):
                now, most = now + 1, max(most, now + 1)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(ask() for _ in range(30)))
        return most

    assert asyncio.run(day()) == 2


def test_one_that_was_given_up_leaves_its_place() -> None:
    async def day() -> None:
        turns, hold = Turns(at_once=1, most=4), asyncio.Event()

        async def ask() -> None:
            async with turns.of("alice"):
                await hold.wait()

        both = [asyncio.create_task(ask()) for _ in range(2)]
        await asyncio.sleep(0)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        assert not turns._lines and turns._asking == 0

    asyncio.run(day())


def test_one_listener_has_at_most_half() -> None:
    events = Events(most=8)
    events.open["alice"] = 4
    assert events.full("alice") and not events.full("bob")
    events.open.update({"bob": 3, "carol": 1})
    assert events.full("dora")


class _Large:
    """Answers everything with more than sockets hold."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5000000")]})
        await send({"type": "http.response.body", "body": b"x" * 5_000_000})


@contextmanager
def served(most: int) -> Iterator[int]:
    """Its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)  # as its connections inherit it
    server = uvicorn.Server(settings_of(_Large(), most))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(30)
        listener.close()


def asks(port: int) -> socket.socket:
    channel = socket.socket()
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    channel.settimeout(30)
    channel.connect(("127.0.0.1", port))
    channel.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return channel


def test_who_reads_a_little_now_and_then_is_let_go_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pal_slurm.page.serving.LOOK_S", 0.1)
    monkeypatch.setattr("pal_slurm.page.serving.STUCK_S", 1e6)
    monkeypatch.setattr("pal_slurm.page.serving.BEHIND_S", 1.0)
    with served(8) as port, asks(port) as slow:
        heard, cut = 0, False
        deadline = time.monotonic() + 60
        while not cut and time.monotonic() < deadline:
            time.sleep(0.01)
            try:
                part = slow.recv(2048)
            except ConnectionError:
                part = b""
            heard, cut = heard + len(part), not part
        assert cut and 0 < heard < 5_000_000


def test_who_does_not_read_makes_way_when_nobody_is_silent() -> None:
    with served(8) as port:
        deaf = [asks(port) for _ in range(8)]
        try:
            for channel in deaf:
                assert channel.recv(12) == b"HTTP/1.1 200"
            with asks(port) as last:
                assert last.recv(12) == b"HTTP/1.1 200"
            ended = 0
            for channel in deaf:
                channel.setblocking(False)
                try:
                    while channel.recv(1 << 20):
                        pass
                    ended += 1
                except BlockingIOError:
                    pass
                except ConnectionError:
                    ended += 1
            assert ended == 1
        finally:
            for channel in deaf:
                channel.close()
