"""DIR/run/control, a JSON line each way: {"do": "restart", "daemon": "n3"}, {"ok": true} or {"error": sentence}."""

import json
import selectors
import signal
import socket

from . import backup, daemons, pald
from .children import Children
from .errors import MiniclusterError
from .layout import Layout
from .spec import Spec


class Control:
    """Orders for single daemons of a cluster that is up."""

    def __init__(self, layout: Layout, spec: Spec, children: Children) -> None:
        self.layout = layout
        self.spec = spec
        self.children = children

    def listen(self, selector: selectors.BaseSelector) -> None:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(self.layout.control))
        self.layout.control.chmod(0o600)
        server.listen(8)
        selector.register(server, selectors.EVENT_READ, lambda: self._answer(server))

    def _answer(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            try:
                request = json.loads(connection.makefile().readline())
                reply = self._obey(request["do"], request.get("daemon", ""))
            except (MiniclusterError, OSError, ValueError, KeyError, TypeError) as error:
                reply = {"error": str(error)}
            try:
                connection.sendall(json.dumps(reply).encode() + b"\n")
            except OSError:
                return

    def _obey(self, order: str, name: str) -> dict[str, object]:
        known = daemons.restartable(self.spec, self.layout)
        if self.spec.backup:
            known[backup.HOST] = backup.daemon(self.layout)
        if self.spec.pald:
            known["pald"] = pald.daemon(self.layout)
        if self.spec.page:
            known["pal-page"] = pald.page(self.layout)
        children = self.children
        if name not in known:
            raise MiniclusterError(f"no daemon {name!r} here: there are {', '.join(known)}")
        if order not in ("stop", "kill", "restart", "start"):
            raise MiniclusterError(f"cannot {order!r}: choose start, stop, kill or restart")
        if order != "start":
            children.stop(name, signal.SIGKILL if order == "kill" else signal.SIGTERM)
        if order in ("start", "restart"):
            if name in children.pids:
                raise MiniclusterError(f"{name} runs already (pid {children.pids[name]})")
            children.spawn(known[name])
        return {"ok": True, "pid": children.pids.get(name)}
