"""Serves the page. In: pal.yaml. Out: HTTP until SIGTERM, with bounded patience for whoever connects.

uvicorn speaks HTTP; what it leaves open is closed here: a connection that says nothing, says it slowly, or does not
read what it is given is dropped, and when there are too many, those that have said nothing go first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pal_slurm.config import Config, database_url
from pal_slurm.config.address import Address
from pal_slurm.errors import ConfigError
from pal_slurm.page.app import PageApp
from pal_slurm.page.token import LEAST_KEY
from pal_slurm.page.watch import Lookout

log = logging.getLogger("pal-page")
HEAD_S = 10.0  # for a request's head, from when it could come to its last byte
LOOK_S = 2.0
STUCK_S = 20.0  # nothing was read meanwhile of what is to be sent
BEHIND_S = 60.0  # and not once all of it: a byte now and then keeps no connection
MOST_HEAD = 16_384
END_S = 3


class PageConnection(H11Protocol):
    """One connection."""

    most: ClassVar[int] = 512
    everyone: ClassVar[list[PageConnection]] = []  # `patient` makes one per server

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle_since: float | None = time.monotonic()
        self._owes, self._owes_since = 0, time.monotonic()
        self._behind_since = time.monotonic()
        if len(self.everyone) >= self.most and not self._room_is_made():
            self.transport.abort()
            return
        self.everyone.append(self)
        self._look()

    def _room_is_made(self) -> bool:
        """Who has said nothing makes way, then who does not read."""
        quiet = next((other for other in self.everyone if other.idle_since is not None), None)
        owed = [other for other in self.everyone if other.transport.get_write_buffer_size()] if quiet is None else []
        goes = quiet or min(owed, key=lambda other: other._behind_since, default=None)
        if goes is not None:
            goes.drop()
        return goes is not None

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.everyone:
            self.everyone.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self.idle_since = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.idle_since is None and self.conn.their_state is h11.IDLE:
            self.idle_since = time.monotonic()

    def drop(self) -> None:
        """At once, with whatever was still to be sent."""
        self.everyone.remove(self)
        self.transport.abort()

    def _look(self) -> None:
        if self not in self.everyone:
            return
        now, owes = time.monotonic(), self.transport.get_write_buffer_size()
        if not owes or owes < self._owes:
            self._owes_since = now
        if not owes:
            self._behind_since = now
        self._owes = owes
        silent = self.idle_since is not None and now - self.idle_since > HEAD_S and not owes
        if silent or now - self._owes_since > STUCK_S or now - self._behind_since > BEHIND_S:
            self.drop()
            return
        self.loop.call_later(LOOK_S, self._look)


def patient(most: int) -> type[PageConnection]:
    return type("Patient", (PageConnection,), {"most": most, "everyone": []})


def settings_of(app: PageApp, most: int) -> uvicorn.Config:
    """No header of a proxy means anything to uvicorn: who is believed is for viewer.py to say."""
    return uvicorn.Config(
        app, http=patient(most), ws="none", lifespan="on", interface="asgi3", access_log=False, log_config=None,
        proxy_headers=False, server_header=False, h11_max_incomplete_event_size=MOST_HEAD, timeout_keep_alive=30,
        timeout_graceful_shutdown=END_S, backlog=256,
    )  # fmt: skip


def serve(config: Config) -> None:
    """Until SIGTERM or SIGINT."""
    page = config.page
    # A server's user who may only read; else what pald uses
    url = database_url(_with(config, page.url_file) if page.url_file else config)
    address = Address(page.listen)
    try:
        listener = address.open()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"page.listen: no page on {page.listen}: {said}") from error
    try:
        app = PageApp(Lookout(config, url), _key(page.jwt_key))
        log.info("pal-page answers on %s", page.listen)
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        uvicorn.Server(settings_of(app, page.most_clients)).run(sockets=[listener])
    finally:
        address.leave()
        listener.close()


def _key(path: str) -> bytes:
    if not path:
        return b""
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"page.jwt_key: {path} can't be read: {error.strerror}") from error
    if len(key) < LEAST_KEY:
        raise ConfigError(f"page.jwt_key: {path} is no key: it has {len(key)} bytes")
    return key


def _with(config: Config, url_file: str) -> Config:
    import msgspec

    database = msgspec.structs.replace(config.database, url="", url_file=url_file)
    return msgspec.structs.replace(config, database=database)
