"""Pages as bytes. In: what was asked. Out: status and HTML; each is made once for all who ask the same in a moment."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pal_slurm import __version__
from pal_slurm.page.views import PageView
from pal_slurm.report.html import TEMPLATES as REPORT
from pal_slurm.report.html import environment
from pal_slurm.report.text import clock

HERE = Path(__file__).parent
KEPT = 64  # pages
FRESH_S = 5.0


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""
    instead: str = ""  # an address to go to
    kind: str = "text/html; charset=utf-8"


class Files:
    """Style sheet, script and icon, under names that change with what is in them."""

    def __init__(self) -> None:
        self.bodies: dict[str, tuple[bytes, str]] = {}
        style = (REPORT / "style.css").read_bytes() + (HERE / "static" / "page.css").read_bytes()
        self.style = self._named(style, ".css", "text/css; charset=utf-8")
        self.script = self._named((HERE / "static" / "page.js").read_bytes(), ".js", "text/javascript; charset=utf-8")
        self.icon = self._named((HERE / "static" / "icon.svg").read_bytes(), ".svg", "image/svg+xml")

    def _named(self, body: bytes, end: str, kind: str) -> str:
        name = f"{sha256(body).hexdigest()[:12]}{end}"
        self.bodies[name] = body, kind
        return name


class Press:
    """Templates to HTML."""

    def __init__(self) -> None:
        self.files = Files()
        self._env = environment(HERE / "templates", wants="pal-page", extra="page")
        self._env.globals |= {"files": self.files, "version": __version__, "clock": clock}

    def page(self, view: PageView, **more: Any) -> bytes:
        text: str = self._env.get_template(view.template).render(**view.values, **more)
        return text.encode()


@dataclass
class Kept:
    """Answers of this moment, by who asked for what."""

    _answers: OrderedDict[object, tuple[float, Reply]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: object) -> Reply | None:
        with self._lock:
            found = self._answers.get(key)
        return found[1] if found and time.monotonic() - found[0] < FRESH_S else None

    def put(self, key: object, answer: Reply) -> None:
        with self._lock:
            self._answers[key] = (time.monotonic(), answer)
            self._answers.move_to_end(key)
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
