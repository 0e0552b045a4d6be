"""The process that touches the spool: `python -m pal_slurm.intake.reader`. In: orders on stdin. Out: answers on stdout.

All that a file of a stranger, or a file system that hangs, can do happens here: memory and CPU time are limited, and
who started it waits for no answer longer than ANSWER_S. While a file is parsed, its name stands in the mark, a file in
pal's own directory: if the reader dies, the mark tells with which file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import resource
import shutil
import signal
import stat
import sys
import time
from pathlib import Path
from typing import IO

import msgspec

from pal_slurm.probe.fields import Defect
from pal_slurm.probe.reading import Reading, read

MOST_MEMORY = 256 << 20  # twice what the largest document takes; pald and this share the MemoryMax of its unit
MOST_CPU_S = 30  # per file
MOST_FRAME = 64 << 20


class FileIdentity(msgspec.Struct, frozen=True, array_like=True):
    """This file, and not another one of that name."""

    name: bytes
    inode: int
    changed_ns: int


class Entry(msgspec.Struct, frozen=True):
    """What lies in the spool under a name."""

    file: FileIdentity
    uid: int

    @property
    def name(self) -> str:
        return os.fsdecode(self.file.name)


class ListIt(msgspec.Struct, frozen=True, tag=True):
    """Names in the spool that have no leading dot."""


class ReadIt(msgspec.Struct, frozen=True, tag=True):
    file: FileIdentity
    most: int  # bytes
    now: float


class MoveIt(msgspec.Struct, frozen=True, tag=True):
    file: FileIdentity
    into: int  # a directory of pal's, as a descriptor
    name: str


Order = ListIt | ReadIt | MoveIt


class Listing(msgspec.Struct, frozen=True, tag=True):
    uid: int  # of the spool itself
    mode: int
    entries: list[Entry]


class Content(msgspec.Struct, frozen=True, tag=True):
    uid: int
    modified: float
    digest: str
    reading: Reading


class Unfit(msgspec.Struct, frozen=True, tag=True):
    """Refused without being read; it stays where it is."""

    said: str


class Moved(msgspec.Struct, frozen=True, tag=True):
    """Out of the spool."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    said: str


Answer = Listing | Content | Unfit | Moved | Failed


def put(pipe: IO[bytes], value: Order | Answer) -> None:
    data = msgspec.msgpack.encode(value)
    pipe.write(len(data).to_bytes(4, "big") + data)
    pipe.flush()


def identity(name: str, about: os.stat_result) -> FileIdentity:
    return FileIdentity(os.fsencode(name), about.st_ino, about.st_ctime_ns)


def main(arguments: list[str]) -> int:
    directory, mark = arguments[0], int(arguments[1])
    for number in (signal.SIGTERM, signal.SIGINT):  # who started us ends us: by closing our stdin
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError), Path("/proc/self/oom_score_adj").open("w", encoding="ascii") as score:
        score.write("1000")  # where pald's unit reaches its MemoryMax this goes first
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError):
        try:
            spool = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            put(answers, Failed(f"can't be read: {error.strerror}"))
            return 1
        while len(size := orders.read(4)) == 4:
            order = msgspec.msgpack.decode(orders.read(int.from_bytes(size, "big")), type=Order)
            put(answers, _answer(order, spool, mark))
    return 0


def _answer(order: Order, spool: int, mark: int) -> Answer:
    try:
        match order:
            case ListIt():
                return _listing(spool)
            case ReadIt():
                return _content(order, spool, mark)
            case MoveIt():
                return _move(order, spool)
    except OSError as error:
        return Failed(error.strerror or str(error))


def _listing(spool: int) -> Listing:
    about, entries = os.fstat(spool), []
    with os.scandir(spool) as found:
        for entry in found:
            if not entry.name.startswith("."):
                with contextlib.suppress(FileNotFoundError):
                    seen = os.stat(entry.name, dir_fd=spool, follow_symlinks=False)
                    entries.append(Entry(identity(entry.name, seen), seen.st_uid))
    return Listing(about.st_uid, about.st_mode, entries)


def _content(order: ReadIt, spool: int, mark: int) -> Answer:
    name = os.fsdecode(order.file.name)
    if stat.S_ISLNK(os.stat(name, dir_fd=spool, follow_symlinks=False).st_mode):
        return Unfit("a symbolic link, not a file")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    handle = os.open(name, flags, dir_fd=spool)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            return Unfit("not a plain file")
        if about.st_size > order.most:
            return Unfit(f"{about.st_size} bytes; a document has at most {order.most}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(order.most + 1)
    finally:
        os.close(handle)
    os.ftruncate(mark, 0)
    os.pwrite(mark, msgspec.msgpack.encode(identity(name, about)), 0)
    reading = _parsed(data, order.now)
    os.ftruncate(mark, 0)
    return Content(about.st_uid, about.st_mtime, hashlib.sha256(data).hexdigest(), reading)


def _parsed(data: bytes, now: float) -> Reading:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + MOST_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    try:
        return read(data, now)
    except MemoryError:
        return Reading(defects=(Defect("", f"{len(data)} bytes that need more than {MOST_MEMORY >> 20} MiB to read"),))


def _move(order: MoveIt, spool: int) -> Answer:
    """Within a file system a rename; else a copy, and the file goes."""
    name = os.fsdecode(order.file.name)
    about = os.stat(name, dir_fd=spool, follow_symlinks=False)
    if identity(name, about) != order.file or not stat.S_ISREG(about.st_mode):
        return Failed("it has changed meanwhile")
    try:
        os.rename(name, order.name, src_dir_fd=spool, dst_dir_fd=order.into)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(name, order, spool)
    else:
        with contextlib.suppress(OSError):  # another user's keeps its time
            os.utime(order.name, (time.time(), time.time()), dir_fd=order.into, follow_symlinks=False)
    return Moved()


def _copy(name: str, order: MoveIt, spool: int) -> None:
    with contextlib.suppress(FileNotFoundError):  # the same file again
        os.unlink(order.name, dir_fd=order.into)
    fresh = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    old = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with (
        os.fdopen(os.open(name, old, dir_fd=spool), "rb") as source,
        os.fdopen(os.open(order.name, fresh, 0o640, dir_fd=order.into), "wb") as target,
    ):
        try:
            if identity(name, os.fstat(source.fileno())) != order.file:
                raise OSError(errno.ESTALE, "it has changed meanwhile")
            shutil.copyfileobj(source, target)
            os.unlink(name, dir_fd=spool)
        except BaseException:
            os.unlink(order.name, dir_fd=order.into)
            raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
