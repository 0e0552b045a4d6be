"""Where something is served: ADDRESS:PORT, or unix:PATH. In: the word of pal.yaml. Out: a socket that listens.

A socket's file that a dead pald left is replaced; what belongs to somebody else, or is alive, is left as it is.
"""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

UNIX = "unix:"
MODE = 0o660  # for its user and group: who else is to connect is put into that group
BACKLOG = 128


@dataclass
class Address:
    listen: str
    mode: int = MODE  # of a socket's file
    _file: tuple[int, int] | None = None  # the socket's file that we made: its device and inode

    def open(self) -> socket.socket:
        """OSError or ValueError: it is taken, not ours to take, or no address of this host."""
        made = self._unix() if self.listen.startswith(UNIX) else self._tcp()
        made.setblocking(False)
        return made

    def lost(self) -> bool:
        """Somebody removed or replaced the socket's file: nobody finds us there any more."""
        return self._file is not None and _identity(self._path) != self._file

    def leave(self) -> None:
        if self._file is not None and not self.lost():
            self._path.unlink()
        self._file = None

    @property
    def _path(self) -> Path:
        return Path(self.listen.removeprefix(UNIX))

    def _tcp(self) -> socket.socket:
        host, _, port = self.listen.rpartition(":")
        family, kind, _, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(where)
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
        return made

    def _unix(self) -> socket.socket:
        _clear(self._path)
        made = socket.socket(socket.AF_UNIX)
        try:
            made.bind(str(self._path))
            self._file = _identity(self._path)
            self._path.chmod(self.mode)  # whatever the umask
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
        return made


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _clear(path: Path) -> None:
    """Remove a socket of ours at which nobody listens; to anything else `bind` says that it is in use."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        return
    with socket.socket(socket.AF_UNIX) as caller:
        caller.setblocking(False)
        try:
            caller.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except BlockingIOError:
            return  # alive, with a long queue
