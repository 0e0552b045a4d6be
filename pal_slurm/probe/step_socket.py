"""Step reports as they come. In: a socket that every job of the node may write. Out: reports, and who sent each.

The kernel queues ten datagrams (net.unix.max_dgram_qlen) and drops the others, so each is taken at once by a thread:
what one user sends holds up nobody else's. Who sent it is asked at that moment too, while the process is there: its
number may be another's soon after.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pal_slurm.probe.errors import ProbeError
from pal_slurm.probe.owners import began, is_of, job_of
from pal_slurm.probe.reporting import MOST_BYTES, Report, parse

MOST_OF_USER = 10_000  # datagrams of one user between two turns: a job of 1,000 ranks sends 1,000 in ten seconds
MOST_USERS = 256
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


@dataclass(frozen=True, slots=True)
class StepReport:
    report: Report
    pid: int
    uid: int
    job: str | None  # of the process; None: of none, or it has gone
    began: float | None  # when that job step did


def with_sender(report: Report, pid: int, uid: int, proc: Path) -> StepReport:
    """Before and after the job is asked for, the process is the same, and of the user who sent the report."""
    there = is_of(pid, uid, proc)
    job, since = job_of(pid, proc), began(pid, proc)
    same = there is not None and there == is_of(pid, uid, proc)
    return StepReport(report, pid, uid, job if same else None, since if same else None)


class StepSocket:
    """Listens from `open` to `close`; `turn` passes on what came since the last one."""

    def __init__(self, path: Path, proc: Path) -> None:
        self._path, self._proc = path, proc
        self._heard: deque[StepReport] = deque()
        self._of_user: Counter[int] = Counter()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="reports", daemon=True)

    def open(self) -> None:
        """The socket, in a directory of our own, writable by everybody."""
        path = self._path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            self._socket.bind(str(path))
            path.chmod(0o666)
        except OSError as error:
            self._socket.close()
            raise ProbeError(
                f"{path}: can't listen there: {error.strerror or error}; choose another --socket"
            ) from error
        self._thread.start()

    def close(self) -> None:
        """What came until now can still be had by `turn`."""
        self._end.set()
        self._thread.join(5.0)
        self._take()
        self._socket.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def turn(self) -> Iterator[StepReport]:
        for _ in range(len(self._heard)):
            yield self._heard.popleft()
        self._of_user = Counter()

    def _listen(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        while not self._end.is_set():
            if ready.poll(200):
                self._take()

    def _take(self) -> None:
        room = socket.CMSG_SPACE(_CREDENTIALS.size)
        with contextlib.suppress(OSError):  # nothing more for now
            while True:
                data, beside, _flags, _sender = self._socket.recvmsg(MOST_BYTES, room)
                if (sender := _credentials(beside)) is not None:
                    self._keep(data, *sender)

    def _keep(self, data: bytes, pid: int, uid: int) -> None:
        count = self._of_user
        if count[uid] >= MOST_OF_USER or (uid not in count and len(count) >= MOST_USERS):
            return
        count[uid] += 1
        report = parse(data)
        if report is not None:
            self._heard.append(with_sender(report, pid, uid, self._proc))


def _credentials(beside: Sequence[tuple[int, int, bytes]]) -> tuple[int, int] | None:
    for level, kind, data in beside:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid, uid, _gid = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
            return pid, uid
    return None
