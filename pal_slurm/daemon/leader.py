"""One writer (P6). In: a lock file, and the leader row of the database. Out: a term with its fence, or who leads.

The lock file keeps two palds of one host apart even when the database is away; the row keeps hosts apart. A leader
that was paused finds its time run out and stops at once: `confirm` is asked right before each write, and the ledger
refuses the fence of a leader that was replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path

from pal_slurm.errors import NotLeader, StoreError
from pal_slurm.store.leadership import Leadership, Term
from pal_slurm.words import printable


class Leader:
    def __init__(self, lock_file: Path, row: Leadership, ttl_s: float) -> None:
        self.lock_file = lock_file
        self.row = row
        self.ttl_s = ttl_s
        self._place = f"{socket.gethostname()}:{lock_file}:"
        self.owner = f"{self._place}{os.getpid()}"
        self._fd: int | None = None
        self._term: Term | None = None
        self._valid_until = 0.0  # on the monotonic clock: a stepped wall clock must not stretch it

    def hold(self, now: float, monotonic: float) -> Term:
        """Become or stay the leader; NotLeader says who is."""
        self._lock()
        self._term = self.row.acquire(self.owner, now, self.ttl_s, dead=self._place)
        self._valid_until = monotonic + self.ttl_s
        return self._term

    def confirm(self, monotonic: float) -> bool:
        """Still the leader, asking nobody: true only while no other may have taken the row."""
        return self._term is not None and monotonic < self._valid_until

    def _lock(self) -> None:
        if self._fd is not None:
            return
        try:
            self.lock_file.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as e:
            raise StoreError(f"leader.lock_file: can't open {self.lock_file}: {e.strerror}") from e
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            holder = printable(os.read(fd, 200)) or "another process"
            os.close(fd)
            raise NotLeader(f"standing by: {holder} holds {self.lock_file}") from e
        self._fd = fd
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
