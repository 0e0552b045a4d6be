"""Hears the wake file at once. In: a file's path, a time. Out: True as soon as somebody wrote to it.

inotify through libc: no look every few milliseconds, and nothing that could keep the ringer waiting. Where it can't be
had (no such kernel, no watches left, no file yet), `wait` only lets the time pass and the file's size tells.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from dataclasses import dataclass, field
from pathlib import Path

IN_MODIFY, IN_DELETE_SELF, IN_MOVE_SELF = 0x2, 0x400, 0x800
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # IN_NONBLOCK, IN_CLOEXEC are the same bits


@dataclass
class Bell:
    _fd: int = field(default=-1, repr=False)
    _inode: int = 0  # of the file that is watched
    _libc: ctypes.CDLL | None = field(default=None, repr=False)

    def listen(self, file: Path | None) -> bool:
        """Watch this file from now on; what was heard so far is forgotten. False: it can't be heard."""
        try:
            inode = file.stat().st_ino if file is not None else 0
            if inode != self._inode or self._fd < 0:
                self.close()
                if file is not None:
                    self._watch(file, inode)
            self._drain()
        except OSError:
            self.close()
        return self._fd >= 0

    def wait(self, seconds: float) -> bool:
        """At most that long."""
        if self._fd < 0:
            time.sleep(seconds)
            return False
        heard, _, _ = select.select([self._fd], [], [], max(0.0, seconds))
        if heard:
            self._drain()
        return bool(heard)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._inode = -1, 0

    def _watch(self, file: Path, inode: int) -> None:
        libc = self._libc = self._libc or ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(_FLAGS)
        mask = IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF
        if self._fd < 0 or libc.inotify_add_watch(self._fd, os.fsencode(file), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self._inode = inode

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._fd >= 0 and os.read(self._fd, 4096):
                pass
