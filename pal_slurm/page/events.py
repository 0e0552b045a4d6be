"""What happens, as it happens. In: each new sight. Out: server-sent events, the same bytes to all who may see them.

A page that listens costs a socket and, per change, one write; nothing is read for it, from the database least of all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

import msgspec
from starlette.types import Receive, Scope, Send

from pal_slurm.page.rows import edit_row
from pal_slurm.page.sight import Sight
from pal_slurm.page.turns import half

HEARTBEAT_S = 15.0
LIFE_S = 600.0  # of one stream: the browser opens the next one by itself
SLOW_S = 10.0  # who takes longer to take one event is let go
MOST_EDITS = 20  # in one event
RETRY_MS = 5_000


@dataclass
class Events:
    most: int
    loop: asyncio.AbstractEventLoop | None = None
    open: Counter[Hashable] = field(default_factory=Counter)  # by who listens
    _sight: Sight = field(default_factory=Sight)
    _last_edit: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _said: dict[bool, bytes] = field(default_factory=dict)

    def hear(self, sight: Sight) -> None:
        """From the watcher's thread."""
        if self.loop is not None and not self.loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it was just closed
                self.loop.call_soon_threadsafe(self._publish, sight)

    def _publish(self, sight: Sight) -> None:
        first = self._sight.number == 0
        fresh = [] if first else [edit for edit in sight.ledger.edits if edit.id > self._last_edit][:MOST_EDITS]
        self._last_edit = max((edit.id for edit in sight.ledger.edits), default=self._last_edit)
        self._sight = sight
        for everything in (False, True):
            told = everything or "jobs" not in sight.present.private
            rows = [edit_row(edit, everything) for edit in reversed(fresh)] if told else []
            now = _now(sight, everything)
            self._said[everything] = _event("edits", rows) + now if rows else now
        self._news.set()
        self._news = asyncio.Event()

    def full(self, who: Hashable) -> bool:
        """For him: nobody has more than half."""
        return self.open.total() >= self.most or self.open[who] >= half(self.most)

    async def stream(self, scope: Scope, receive: Receive, send: Send, everything: bool, who: Hashable) -> None:
        """One listener; the caller has sent nothing yet."""
        loop = asyncio.get_running_loop()
        gone = asyncio.ensure_future(_gone(receive))
        self.open[who] += 1
        try:
            await self._out(send, f"retry: {RETRY_MS}\n\n".encode() + _now(self._sight, everything))
            until = loop.time() + LIFE_S
            while not gone.done() and loop.time() < until:
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait((news, gone), timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
                heard = news.done()
                news.cancel()
                if not gone.done():
                    await self._out(send, self._said[everything] if heard else _now(self._sight, everything))
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            return  # slow: uvicorn closes what is not answered to its end
        finally:
            self.open[who] -= 1
            self.open += Counter()  # who listens no more is forgotten
            gone.cancel()

    async def _out(self, send: Send, body: bytes) -> None:
        async with asyncio.timeout(SLOW_S):
            await send({"type": "http.response.body", "body": body, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _now(sight: Sight, everything: bool) -> bytes:
    private = not everything and {"jobs", "nodes"}.intersection(sight.present.private)
    counts = {} if private else sight.counts
    told = {"number": sight.number, "alive": sight.alive, "taken": sight.present.taken, "counts": counts}
    return _event("now", told)


def _event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
