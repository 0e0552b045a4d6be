"""pal's own directory for what comes in, STATE_DIR/intake; nobody else can write it. In: state_dir. Out: descriptors.

    lock                 held by the one program that takes in
    mark                 the file that is being parsed; still set when the reader died with it
    seen                 files that stay in the spool and are not to be looked at again
    taken/NAME           is in the store; removed after a week
    set-aside/NAME       can't be used; NAME.reason says why

Everything is opened relative to a descriptor of its directory, through no symbolic link, and made with O_EXCL.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import msgspec

from pal_slurm.errors import BadInput, ConfigError, PalError
from pal_slurm.intake.reader import FileIdentity

PLACE, TAKEN, SET_ASIDE = "intake", "taken", "set-aside"
KEEP_TAKEN_S = 7 * 86_400.0
KEEP_ASIDE_S = 90 * 86_400.0
MOST_KEPT, MOST_KEPT_BYTES = (
    20_000,
    256 << 20,
)  # of each: what comes from the spool never fills the disk of the database
MOST_SEEN = 10_000
LOCK_S = 2.0  # the reader of a program that was killed ends within
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SpoolBusy(PalError):
    exit_code = 75


class IntakeDirectory:
    def __init__(self, state: Path) -> None:
        self._state = state
        self._open: list[int] = []

    def __enter__(self) -> IntakeDirectory:
        try:
            home = self._kept(os.open(self._state, _DIRECTORY & ~os.O_NOFOLLOW))
            about = os.fstat(home)
            if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigError(f"state_dir: {self._state} can be written by others; run: chmod go-w {self._state}")
            self._owner = about.st_uid, about.st_gid
            self.place = self._own(home, PLACE)
            self.lock = self._locked()
            self.taken, self.aside = self._own(self.place, TAKEN), self._own(self.place, SET_ASIDE)
            self.blamed = self._died_with()
            self.mark = self._kept(self._made(self.place, "mark"))
            self.seen = self._seen()
        except OSError as error:
            self._close()
            raise BadInput(f"{self._state}/{PLACE} can't be used: {error.strerror}: {error.filename}") from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def reason(self, file: FileIdentity, said: str) -> str:
        """Write why a file can't be used; the name that it is to have there, free of what can't be printed."""
        name = kept_name(file)
        if self._there(f"{name}.reason") or self._there(name):
            name = kept_name(file, again=True)
        with contextlib.suppress(FileExistsError):  # it was written, and then we were killed
            made = self._made(self.aside, f"{name}.reason")
            with os.fdopen(made, "w", encoding="utf-8") as out:
                out.write(f"{said}\n")
        return name

    def remember(self, there: Iterable[FileIdentity]) -> None:
        """Write down which of the files that are not to be looked at are still in the spool."""
        self.seen &= set(there)
        if not self.seen and not self._there("seen", self.place):
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink("seen.new", dir_fd=self.place)
        with os.fdopen(self._made(self.place, "seen.new"), "wb") as out:
            out.write(msgspec.msgpack.encode(sorted(self.seen, key=lambda file: file.name)[:MOST_SEEN]))
        os.rename("seen.new", "seen", src_dir_fd=self.place, dst_dir_fd=self.place)

    def tidy(self) -> None:
        """What is old, and what is too much, goes: the oldest first."""
        for folder, keep_s in ((self.taken, KEEP_TAKEN_S), (self.aside, KEEP_ASIDE_S)):
            found = []
            with os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        found.append((about.st_ctime, about.st_size, entry.name))
            left = 0
            for n, (at, size, name) in enumerate(sorted(found, reverse=True)):
                left += size
                if at < time.time() - keep_s or n >= MOST_KEPT or left > MOST_KEPT_BYTES:
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=folder)

    def _own(self, parent: int, name: str) -> int:
        """A directory that nobody but the owner of state_dir, and root, can write."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o750, dir_fd=parent)
            self._give(made := os.open(name, _DIRECTORY, dir_fd=parent))
            os.close(made)
        found = self._kept(os.open(name, _DIRECTORY, dir_fd=parent))
        self._ours(found, f"{name}/")
        return found

    def _ours(self, handle: int, name: str) -> None:
        about = os.fstat(handle)
        if about.st_uid not in (self._owner[0], 0, os.geteuid()) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(f"{self._state}/{PLACE}: {name} belongs to another user or can be written by others")
        if not stat.S_ISDIR(about.st_mode) and (not stat.S_ISREG(about.st_mode) or about.st_nlink > 1):
            raise ConfigError(f"{self._state}/{PLACE}: {name} is not a plain file")

    def _made(self, folder: int, name: str) -> int:
        made = os.open(name, _NEW, 0o640, dir_fd=folder)
        self._give(made)
        return made

    def _give(self, made: int) -> None:
        """What root makes belongs to pald, who is no root and uses it."""
        if os.geteuid() == 0 and self._owner[0] != 0:
            os.fchown(made, *self._owner)

    def _locked(self) -> int:
        with contextlib.suppress(FileExistsError):
            os.close(self._made(self.place, "lock"))
        lock = self._kept(os.open("lock", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.place))
        self._ours(lock, "lock")
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError as error:
                if time.monotonic() > until:
                    holds = f"it holds {self._state}/{PLACE}/lock"
                    raise SpoolBusy(f"another program takes in, or waits for a spool that hangs; {holds}") from error
                time.sleep(0.05)

    def _died_with(self) -> FileIdentity | None:
        """The file that an earlier reader was parsing when it died."""
        data = self._read("mark", 1 << 16)
        with contextlib.suppress(FileNotFoundError):
            os.unlink("mark", dir_fd=self.place)
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.msgpack.decode(data, type=FileIdentity)
        return None

    def _seen(self) -> set[FileIdentity]:
        with contextlib.suppress(msgspec.MsgspecError):
            return set(msgspec.msgpack.decode(self._read("seen", 16 << 20), type=list[FileIdentity]))
        return set()

    def _read(self, name: str, most: int) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.place)
            with os.fdopen(handle, "rb") as file:
                self._ours(handle, name)
                return file.read(most)
        return b""

    def _there(self, name: str, folder: int | None = None) -> bool:
        try:
            os.stat(name, dir_fd=self.aside if folder is None else folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _kept(self, handle: int) -> int:
        self._open.append(handle)
        return handle

    def _close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def kept_name(file: FileIdentity, again: bool = False) -> str:
    """Free of what can't be printed, and short. `again`: another file of that name is there."""
    name = os.fsdecode(file.name)
    plain = "".join(c if c.isprintable() and c != "/" else "?" for c in name)[:120]
    mark = hashlib.sha256(msgspec.msgpack.encode(file)).hexdigest()[:12]
    return plain if plain == name and not again else f"{plain}.{mark}"
