"""Who else works on the same fake GPU. In: its GPUs, the cluster's pairs.json. Out: a factor on its next step's time.

Each copy leaves a file of its name in DIR/run/together, locked for as long as it lives; the others read what it runs.
Only clusters with shards have that directory. A pair that pairs.json does not name takes turns: each is twice as slow.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path

from palwork_lib.slurm import job

TURNS = 2.0


class Together:
    def __init__(self, directory: Path, node: str, gpus: list[str], app: str) -> None:
        self._place, self._app, self._job = directory / "run" / "together", app, job()
        self._marks = [f"{node}.{gpu}." for gpu in gpus] if self._place.is_dir() else []
        self._pairs: dict[str, dict[str, float]] = {}
        if self._marks:
            self._pairs = json.loads((directory / "pairs.json").read_text())
        for mark in self._marks:
            begun = self._place / f".{mark}{os.getpid()}"
            handle = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)  # open until the end
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.write(handle, f"{self._job}\n{app}\n".encode())
            begun.rename(self._place / f"{mark}{os.getpid()}")

    def factor(self) -> float:
        """That of the worst neighbour; 1.0 alone."""
        worst = 1.0
        if not self._marks:
            return worst
        for path in self._place.iterdir():
            if path.name.startswith(tuple(self._marks)):
                other = _alive(path)
                if other is not None and other[0] != self._job:
                    worst = max(worst, self._pairs.get(self._app, {}).get(other[1], TURNS))
        return worst


def _alive(path: Path) -> tuple[str, str] | None:
    """Job and application of a copy that still works; what nobody holds any more is taken away."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        words = os.read(handle, 4096).decode(errors="replace").splitlines()
        return (words[0], words[1]) if len(words) > 1 else None
    else:
        with contextlib.suppress(OSError):  # another user's
            path.unlink()
        return None
    finally:
        os.close(handle)
