"""The worker's end of the line. In: one request per line on stdin. Out: answers, one or more lines each.

    request   {"id": 7, "verb": "jobs", "args": {...}}
    answer    {"id": 7, "part": ...}      as many as it takes
              {"id": 7, "done": ...}      or {"id": 7, "error": {"kind": ..., "errno": ..., "text": ...}}

The real stdout is kept for this; file descriptor 1 is pointed at stderr, so that a print by libslurm or a plugin of
it can't break the stream.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

Args = dict[str, Any]  # what JSON gives; each verb takes out what it knows


class Link:
    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._in: BinaryIO = sys.stdin.buffer
        self._id = 0

    def requests(self) -> Iterator[tuple[str, Args]]:
        """Requests until the other end hangs up."""
        for line in self._in:
            message = json.loads(line)
            self._id = message["id"]
            yield message["verb"], message.get("args") or {}

    def part(self, payload: object) -> None:
        self._send({"id": self._id, "part": payload})

    def done(self, payload: object) -> None:
        self._send({"id": self._id, "done": payload})

    def error(self, kind: str, text: str, errno: int | None = None) -> None:
        self._send({"id": self._id, "error": {"kind": kind, "errno": errno, "text": text}})

    def _send(self, message: dict[str, object]) -> None:
        # ensure_ascii: whatever a text holds, the line is plain ASCII without a newline.
        self._out.write(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")
        self._out.flush()
