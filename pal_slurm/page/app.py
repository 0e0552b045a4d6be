"""The application. In: ASGI requests. Out: pages, events, and the same strict headers with each of them.

Only GET and HEAD, no bodies. Views run in a few threads of their own, as they may read the database.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from pal_slurm.errors import StoreError
from pal_slurm.page.answers import Kept, Press, Reply
from pal_slurm.page.asked import NotThere, NotYours, Visit, Wrong
from pal_slurm.page.events import Events
from pal_slurm.page.sight import Sight
from pal_slurm.page.turns import Crowded, Turns
from pal_slurm.page.viewer import Unclear, Viewer, is_ours, viewer_of
from pal_slurm.page.views import PageView, every_route
from pal_slurm.page.watch import Lookout
from pal_slurm.report.pace import AskPace

log = logging.getLogger("pal-page")
THREADS, MOST_EACH = 4, 2  # that answer; of them for one asker
MOST_WAITING = 256  # questions that wait for a thread
MOST_ADDRESS = 2_000
FOREVER = "public, max-age=31536000, immutable"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
SAID = {400: "This can't be answered", 403: "Not for you to see", 404: "Not found", 405: "Not done here",
        500: "A fault of ours", 503: "Not now"}  # fmt: skip


class PageApp:
    """The application that a server runs."""

    def __init__(self, watcher: Lookout, key: bytes = b"") -> None:
        """`key`: Slurm's, of tokens; none: no token is believed."""
        self.watcher, self._key = watcher, key
        self.events = Events(most=max(1, watcher.config.page.most_clients // 2))
        watcher.heard = self.events.hear
        self._press, self._kept = Press(), Kept()
        self._views = [(Route(path, lambda: None), view) for path, view in every_route().items()]
        self._threads = ThreadPoolExecutor(THREADS, "views")
        self._turns = Turns(MOST_EACH, MOST_WAITING)
        self._pace = AskPace(watcher.config.users.per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        assert scope["type"] == "http"
        try:
            refused = self._refused(scope)
            peer = scope["client"][0] if scope["client"] else None
            settings, private = self.watcher.config.page, self.watcher.sight.present.private
            viewer = Viewer() if refused else viewer_of(scope["headers"], peer, settings, self._key, private)
        except Unclear as error:
            refused, viewer = (400, str(error)), Viewer()
        if refused:
            await self._send(scope, send, self._error(scope, viewer, *refused), close=True)
            return
        parts = scope["path"].rpartition("/")
        if parts[0] == "/files" and parts[2] in self._press.files.bodies:
            body, kind = self._press.files.bodies[parts[2]]
            await self._send(scope, send, Reply(200, body, kind=kind), kept=FOREVER)
        elif scope["path"] == "/events":
            await self._listen(scope, receive, send, viewer)
        else:
            await self._send(scope, send, await self._answer(scope, viewer))

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if b"transfer-encoding" in headers or headers.get(b"content-length", [b"0"]) != [b"0"]:
            return 400, "a question here has no body"
        if len(hosts := headers.get(b"host", [])) != 1:
            return 400, "Host comes once"
        if not is_ours(hosts[0], self.watcher.config.page):
            return 400, "this page is not known by that name: its admins say which it has (page.hosts in pal.yaml)"
        if len(scope["raw_path"]) + len(scope["query_string"]) > MOST_ADDRESS:
            return 400, "an address that long leads nowhere"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this page only shows"
        return None

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.events.loop = asyncio.get_running_loop()
        await self.events.loop.run_in_executor(self._threads, self.watcher.look)
        self.watcher.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.watcher.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _listen(self, scope: Scope, receive: Receive, send: Send, viewer: Viewer) -> None:
        who = _asker(scope, viewer)
        if self.events.full(who):
            said = "as many pages listen already as may; this one shows what it showed when it was opened"
            await self._send(scope, send, self._error(scope, viewer, 503, said))
            return
        await self._begin(send, 200, {"content-type": "text/event-stream", "cache-control": "no-store"})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        await self.events.stream(scope, receive, send, viewer.everything, who)

    async def _answer(self, scope: Scope, viewer: Viewer) -> Reply:
        sight = self.watcher.sight
        key = (viewer, scope["raw_path"], scope["query_string"], sight.number, sight.alive)
        if (kept := self._kept.get(key)) is not None:
            return kept
        try:
            async with self._turns.of(_asker(scope, viewer)):
                if (kept := self._kept.get(key)) is not None:  # made meanwhile, for who asked the same
                    return kept
                loop = asyncio.get_running_loop()
                answer = await loop.run_in_executor(self._threads, partial(self._view, scope, viewer, sight))
        except Crowded as error:
            return self._error(scope, viewer, 503, str(error))
        if answer.status == 200:
            self._kept.put(key, answer)
        return answer

    def _view(self, scope: Scope, viewer: Viewer, sight: Sight) -> Reply:
        """In a thread."""
        sight = sight.seen_by(viewer)
        try:
            for route, view in self._views:
                match, found = route.matches(scope)
                if match is Match.FULL:
                    asked = Visit(Request({**scope, **found}), viewer, self.watcher, sight, self._pace)
                    shown = view(asked)
                    if shown.instead:
                        return Reply(303, instead=shown.instead)
                    if shown.record is not None:
                        return Reply(200, msgspec.json.encode(shown.record), kind="application/json")
                    return Reply(200, self._page(scope, viewer, shown, sight))
        except Wrong as error:
            return self._error(scope, viewer, 400, str(error))
        except NotYours as error:
            return self._error(scope, viewer, 403, str(error))
        except NotThere as error:
            return self._error(scope, viewer, 404, str(error))
        except StoreError as error:
            return self._error(scope, viewer, 503, str(error))
        except Exception:
            log.exception("a fault of pal-page at %s", ascii(scope["path"])[:200])
            return self._error(scope, viewer, 500, "the journal of pal-page has more")
        return self._error(scope, viewer, 404, "there is no such page")

    def _page(self, scope: Scope, viewer: Viewer, view: PageView, sight: Sight) -> bytes:
        """Addresses in a page are relative to it, so that it works below any path of a proxy."""
        root = "../" * (scope["raw_path"].count(b"/") - 1) or "./"
        return self._press.page(view, root=root, viewer=viewer, sight=sight, path=scope["path"])

    def _error(self, scope: Scope, viewer: Viewer, status: int, said: str) -> Reply:
        view = PageView("error.html", {"status": status, "title": SAID[status], "said": said})
        return Reply(status, self._page(scope, viewer, view, self.watcher.sight.seen_by(viewer)))

    async def _send(self, scope: Scope, send: Send, answer: Reply, kept: str = "no-store", close: bool = False) -> None:
        headers = {"content-type": answer.kind, "content-length": str(len(answer.body)), "cache-control": kept}
        if answer.instead:
            headers["location"] = answer.instead
        if close:
            headers["connection"] = "close"
        await self._begin(send, answer.status, headers)
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def _begin(self, send: Send, status: int, headers: dict[str, str]) -> None:
        every = [(name.encode(), value.encode()) for name, value in {**HEADERS, **headers}.items()]
        await send({"type": "http.response.start", "status": status, "headers": every})


def _asker(scope: Scope, viewer: Viewer) -> tuple[str, str]:
    """His name; of who has none, where he comes from: behind a proxy all those are one."""
    return (viewer.name, "") if viewer.name else ("", scope["client"][0] if scope["client"] else "")
