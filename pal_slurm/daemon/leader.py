"""One writer (P6). In: a lock file, and the leader row of the database. Out: a term with its fence, or who leads.

The lock file keeps two palds of one host apart even when the database is away; the row keeps hosts apart. Whoever
holds the very file that the row names follows at once; a file of that name elsewhere, or made anew, is another. A
leader that was paused finds its time run out and stops at once: for how long it may write is asked right before each
write, and the ledger refuses the fence of a leader that was replaced. No host's wall clock has a say: who stands by
takes over when the row has not changed for `ttl_s` of his own monotonic clock, and the leader's own time began before
he wrote it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import stat
import zlib
from pathlib import Path

from pal_slurm.daemon.clock import Clock
from pal_slurm.errors import NotLeader, StoreError
from pal_slurm.store.leadership import Leadership, Term
from pal_slurm.store.place import give_to_its_place
from pal_slurm.words import printable

IN_HAND = 1 / 6  # of a term
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Leader:
    def __init__(self, lock_file: Path, row: Leadership, ttl_s: float, clock: Clock) -> None:
        self.lock_file = lock_file
        self.row = row
        self.ttl_s = ttl_s
        self.clock = clock
        self._place = f"{socket.gethostname()}:{lock_file}:"
        self._file = ""  # the one that we hold
        self.owner = ""
        self._fd: int | None = None
        self._term: Term | None = None
        self._valid_until = 0.0  # on the monotonic clock
        self._seen: Term | None = None  # another's, as it stood when we last looked
        self._seen_at = 0.0  # when we first saw it so

    def hold(self) -> Term:
        """Become or stay the leader; NotLeader says who is."""
        self._lock()
        asked, mine = self.clock.monotonic(), self._term if self.confirm() else None
        try:
            self._term = self.row.acquire(self.owner, self.clock.now(), self.ttl_s, mine, self._left_s)
        except NotLeader:
            self._term = None
            raise
        self._valid_until = asked + self.ttl_s
        return self._term

    def _left_s(self, held: Term) -> float:
        """For how long it may still lead: asked while its row is locked."""
        if held.owner.startswith(self._place) and held.owner.endswith(self._file):
            # We hold its lock file: it is gone, or was ourselves.
            return 0.0
        now = self.clock.monotonic()
        if held != self._seen:
            self._seen, self._seen_at = held, now
        return self._seen_at + self.ttl_s - now

    def confirm(self) -> bool:
        """Still the leader, asking nobody: true only while no other may have taken the row."""
        return self._term is not None and self.clock.monotonic() < self._valid_until

    @property
    def left_s(self) -> float:
        """For how long we may still write: a part of the term is kept for what slurmctld has in hand by then."""
        return self._valid_until - self.ttl_s * IN_HAND - self.clock.monotonic() if self._term is not None else 0.0

    def goes_on(self, fence: int) -> bool:
        """Still the leader, under this fence: a long row of edits prolongs its term while it lasts."""
        if self.confirm() and self._valid_until - self.clock.monotonic() < self.ttl_s * 5 / 6:
            with contextlib.suppress(NotLeader):
                self.hold()
        return self._term is not None and self._term.fence == fence and self.confirm()

    def _lock(self) -> None:
        if self._fd is not None:
            return
        try:
            self.lock_file.parent.mkdir(parents=True, exist_ok=True)
            # It is written, and given to its directory's owner: it may be no link to a file of another's
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self.lock_file, flags, 0o644)
        except OSError as e:
            raise StoreError(f"leader.lock_file: can't open {self.lock_file}: {e.strerror}") from e
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            os.close(fd)
            raise StoreError(f"leader.lock_file: {self.lock_file} is not a plain file; remove it")
        give_to_its_place(fd, self.lock_file)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            holder = printable(os.read(fd, 200)) or "another process"
            os.close(fd)
            raise NotLeader(f"standing by: {holder} holds {self.lock_file}") from e
        self._fd, self._file = fd, _named(fd)
        self.owner = f"{self._place}{os.getpid()}{self._file}"
        with contextlib.suppress(OSError):  # a full disk: the lock is ours all the same, and does not say whose
            os.ftruncate(fd, 0)
            os.write(fd, self.owner.encode())

    def resign(self) -> None:
        """Let another take over at once."""
        term, self._term, self._valid_until = self._term, None, 0.0
        try:
            if term is not None:
                self.row.release(term)
        finally:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None


def _named(fd: int) -> str:
    """This file and no other: hosts may be called alike, and a file be removed while its lock is held."""
    try:
        boot = BOOT_ID.read_bytes()
    except OSError:  # nobody's file is known to be ours then: each waits until the other's time is over
        boot = secrets.token_bytes(8)
    at = os.fstat(fd)
    return f"@{zlib.crc32(b'%s %d %d' % (boot, at.st_dev, at.st_ino)):08x}"
