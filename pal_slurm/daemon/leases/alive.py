"""pald's sign of life, which job_submit.lua reads for each job. In: cycles, what may pass, QOS. Out: one small file.

    1763456789 0f3a9b21             the time of the cycle: leases are given while this is fresh; the version of the rest
    preempt high,urgent             QOS that may preempt: a lease would hurt their jobs
    lease 20                        seconds that a new job waits for us, where pal_lua.conf does not say (between.py)
    pass all 1763456788 1763456797  or `pass brief`, or no such line: passing.py; from when it is, until when it holds
    brief 1004 resnet               pass brief: such jobs of this UID may; `-`: those that name no application
    end                             without this line, or a version, only the time counts

A pald that gives no leases writes `exclude 1763456789`: for the dead man's timer, which looks at the file's own time.
A pald that has ended leaves the file empty.

The file is written in place, for its directory is root's: whoever runs as pald can put nothing there that slurmctld
would open. The version is taken away first and written last, and lua takes what it read for whole only where the
version was the same before and after. Only names that lua's own patterns know stand in it (P9).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.store.place import give_to_its_place
from pal_slurm.words import digits

log = logging.getLogger("pald")
MOST_BYTES = 16_000  # job_submit.lua reads 16 KiB
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def is_name(text: str) -> bool:
    """What may be written: no blank, comma or newline, so that no name can pass for another line."""
    return _NAME.fullmatch(text) is not None


@contextlib.contextmanager
def plain_file(path: Path, mode: int = 0o664) -> Iterator[int]:
    """To be written in place: no link, pipe or device; made where it is missing and the directory lets us."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
        os.fchmod(fd, mode)  # slurmctld opens it as another user, and the unit's umask hides files from others
        give_to_its_place(fd, path)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        yield fd
    finally:
        os.close(fd)


@dataclass
class Alive:
    """The file, and whether jobs may pass by what stands in it."""

    path: Path | None
    preempting: tuple[str, ...] = ()
    lease_s: int | None = None
    given: bool = field(default=False, init=False)  # it is ours to take back
    _open: bool = field(default=True)  # what an earlier pald let pass is not known
    _version: int = field(default_factory=lambda: secrets.randbits(32), init=False)

    def beat(self, now: float, passing: Iterable[str] = ()) -> None:
        """We live, and this may pass."""
        lines = list(passing)
        self._open, self.given = bool(lines), True
        self._write(now, lines)

    def beat_beside(self, now: float) -> None:
        """We live, and lease nobody: job_submit.lua takes that for no sign of life, the dead man's timer does."""
        self._open = self.given = False
        self._put("", f"exclude {int(now)}\n")

    def shut(self) -> None:
        """Nothing may pass from here on: somebody is about to be leased. That is no sign of life: its time stays."""
        if self._open and (beat := self._last()) is not None:
            self._write(beat, [])
        self._open = False

    def gone(self) -> None:
        """No leases any more: slurmctld lets us edit nobody's jobs."""
        self._open = self.given = False
        if self.path is not None:
            with contextlib.suppress(OSError), plain_file(self.path) as fd:
                os.ftruncate(fd, 0)

    def _last(self) -> int | None:
        try:
            if self.path is None or not self.path.exists():
                return None
            with plain_file(self.path) as fd:
                word = os.pread(fd, 64, 0).partition(b"\n")[0].partition(b" ")[0].decode("ascii")
        except (OSError, ValueError):  # there is none, and so nothing that says what may pass
            return None
        return int(word) if digits(word) else None

    def _write(self, now: float, lines: list[str]) -> None:
        qos = [f"preempt {','.join(names)}"] if (names := [n for n in self.preempting if is_name(n)]) else []
        lease = [f"lease {self.lease_s}"] if self.lease_s else []
        text = "\n".join([*qos, *lease, *lines, "end", ""])
        if len(text) > MOST_BYTES:
            text = "\n".join([*qos, *lease, "end", ""])
            self._open = False
        self._put(f"{int(now)}", text)

    def _put(self, head: str, body: str) -> None:
        """`head`: nothing, or the time, which a version follows."""
        if self.path is None:
            return
        self._version = (self._version + 1) % 2**32
        first, last = (f"{head} {'-' * 8}\n", f"{head} {self._version:08x}\n") if head else ("", "")
        try:
            with plain_file(self.path) as fd:
                os.pwrite(fd, first.encode(), 0)
                os.pwrite(fd, body.encode(), len(first))
                os.ftruncate(fd, len(first) + len(body))
                os.pwrite(fd, last.encode(), 0)
        except OSError as e:
            self._open = False
            log.warning(
                "cycle.alive_file: can't write %s: %s; job_submit.lua will give no leases", self.path, e.strerror
            )
