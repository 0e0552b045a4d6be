"""Child processes that may hang. In: an order to one. Out: its JSON lines, or a sentence why there are none.

Everything that touches a driver runs in such a child: a lost GPU can block a call for ever, or crash the process.
A child ends by itself when its standard input closes, so that none outlives the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pal_slurm.probe.words import plain

_PACKAGE = str(Path(__file__).resolve().parents[2])
_MOST_LINE = 4 * 2**20


class ChildFailed(Exception):
    """`str()` says what became of the child."""


class ProbeChild:
    """A process of ours that answers in JSON lines."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as the child
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # so that what it started can be ended with it
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._buffer = b""

    @classmethod
    def ours(cls, *arguments: str, env: Mapping[str, str] | None = None) -> ProbeChild:
        path = os.pathsep.join(filter(None, [_PACKAGE, os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-P", "-m", "pal_slurm.probe.child", *arguments]
        return cls(command, {**(env or {}), "PYTHONPATH": path})

    def fileno(self) -> int:
        return self._out.fileno()

    def send(self, order: dict[str, object]) -> None:
        try:
            self._in.write(json.dumps(order).encode() + b"\n")
            self._in.flush()
        except OSError as error:
            raise ChildFailed(self._how_it_ended()) from error

    def answer(self, timeout: float) -> dict[str, Any]:
        """The next line; ChildFailed if it does not come in time, or is no JSON object."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                raise ChildFailed(f"it gave no answer within {timeout:.0f} s")
            self._read()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return self._parse(line)

    def ready(self) -> list[dict[str, Any]]:
        """The lines that are there already."""
        while self._selector.select(0):
            self._read()
        *lines, self._buffer = self._buffer.split(b"\n")
        return [self._parse(line) for line in lines]

    def _read(self) -> None:
        data = self._out.read(65536)
        if data is None:
            return
        if not data:
            raise ChildFailed(self._how_it_ended())
        self._buffer += data
        if len(self._buffer) > _MOST_LINE:
            raise ChildFailed("it writes without an end")

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ChildFailed(f"it wrote {plain(line.decode('utf-8', 'replace'), 80)!r}, which is no JSON") from error
        if not isinstance(value, dict):
            raise ChildFailed(f"it wrote {plain(str(value), 80)!r} instead of an object")
        return value

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        if code is None:
            return "it closed its output and did not end"
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self._errors.seek(0)
        said = self._errors.read()[-4096:].decode("utf-8", "replace").strip().splitlines()
        return f"it {how}" + (f": {plain(said[-1], 300)}" if said else "")

    def end(self) -> None:
        """Kill it and what it started. A process that waits for a dead device inside the kernel stays behind."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self._selector.close()
        for stream in (self._in, self._out, self._errors):
            with contextlib.suppress(OSError):
                stream.close()
        if self._process.returncode is None:
            self._process.returncode = -signal.SIGKILL  # it can't be waited for: subprocess shall not warn about it
