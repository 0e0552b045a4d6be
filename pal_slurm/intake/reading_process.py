"""The reader of a spool, from outside. In: a directory. Out: what it lists, reads and moves, in time or not at all."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeVar

import msgspec

from pal_slurm.errors import BadInput, PalError
from pal_slurm.intake.reader import (
    MOST_FRAME,
    Answer,
    Content,
    Entry,
    Failed,
    Listing,
    ListIt,
    Moved,
    MoveIt,
    Order,
    ReadIt,
    Unfit,
    put,
)

_PACKAGE = Path(__file__).resolve().parents[2]
DIES_S = 5.0  # so long a reader may take to end; one that sits in a hanging file system takes longer
T = TypeVar("T", bound=Answer)


class SpoolSilent(PalError):
    """The file system of the spool does not answer, or nobody can ask it now."""

    exit_code = 75


class ReaderDied(PalError):
    """It takes more than it may have, or has a bug: the file is to blame, and is not read again."""


class SpoolReader:
    """One process. `keep`: descriptors that it needs, and the lock, which is free when it is gone."""

    def __init__(self, directory: Path, mark: int, keep: tuple[int, ...], answer_s: float) -> None:
        self._directory, self._mark, self._keep, self._answer_s = directory, mark, keep, answer_s
        self._process: subprocess.Popen[bytes] | None = None

    def listing(self) -> Listing:
        answer = self._ask(ListIt())
        if isinstance(answer, Failed):
            raise BadInput(f"the spool {self._directory} {answer.said}")
        return self._of(answer, Listing)

    def read(self, entry: Entry, most: int, now: float) -> Content | Unfit | Failed:
        answer = self._ask(ReadIt(entry.file, most, now))
        assert isinstance(answer, Content | Unfit | Failed)
        return answer

    def move(self, entry: Entry, into: int, name: str) -> str:
        """Why it is still there; empty: it is not."""
        answer = self._ask(MoveIt(entry.file, into, name))
        return answer.said if isinstance(answer, Failed) else "" if isinstance(answer, Moved) else "it has no place"

    def end(self) -> None:
        """By itself where it can, with the file that it reads done; else it is killed, and the file not to blame."""
        process, self._process = self._process, None
        if process is None:
            return
        _close(process)
        try:
            process.wait(DIES_S)
        except subprocess.TimeoutExpired:
            self._kill(process)

    def _ask(self, order: Order) -> Answer:
        process = self._process = self._process or self._begin()
        assert process.stdin is not None
        try:
            put(process.stdin, order)
            frame = self._frame(process, time.monotonic() + self._answer_s)
        except OSError:  # a pipe that nobody reads any more
            frame = b""
        except SpoolSilent:
            self._process = None
            self._kill(process)
            raise
        if not frame:
            self._process = None
            raise ReaderDied(_ending(process))
        answer: Answer = msgspec.msgpack.decode(frame, type=Answer)
        return answer

    def _begin(self) -> subprocess.Popen[bytes]:
        # -P: nothing of the directory that this is started in is imported
        command = [sys.executable, "-P", "-m", "pal_slurm.intake.reader", str(self._directory), str(self._mark)]
        path = os.pathsep.join(filter(None, [str(_PACKAGE), os.environ.get("PYTHONPATH", "")]))
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._mark, *self._keep),
                cwd="/",
                env={**os.environ, "PYTHONPATH": path},
            )
        except OSError as error:  # TasksMax of the unit, a limit of the user
            raise SpoolSilent(f"no process to read the spool {self._directory}: {error.strerror}") from error

    def _frame(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        """Empty: the process is gone."""
        head = self._bytes(process, 4, until)
        size = int.from_bytes(head, "big")
        if len(head) < 4 or size > MOST_FRAME:
            return b""
        data = self._bytes(process, size, until)
        return data if len(data) == size else b""

    def _bytes(self, process: subprocess.Popen[bytes], count: int, until: float) -> bytes:
        assert process.stdout is not None
        handle, found, ready = process.stdout.fileno(), bytearray(), select.poll()
        ready.register(handle, select.POLLIN)
        while len(found) < count:
            if not ready.poll(max(0.0, until - time.monotonic()) * 1000):
                raise SpoolSilent(f"the spool {self._directory} has not answered within {self._answer_s:g} s")
            chunk = os.read(handle, min(1 << 20, count - len(found)))
            if not chunk:
                break
            found += chunk
        return bytes(found)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        _close(process)
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # until its file system answers nobody can end it
            process.wait(DIES_S)
            os.ftruncate(self._mark, 0)

    def _of(self, answer: Answer, kind: type[T]) -> T:
        assert isinstance(answer, kind)
        return answer


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            assert pipe is not None
            pipe.close()


def _ending(process: subprocess.Popen[bytes]) -> str:
    _close(process)
    try:
        code = process.wait(DIES_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return "the reader stopped to answer with it"
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"the reader ended with it ({how}): it takes more time or memory than a document may"
