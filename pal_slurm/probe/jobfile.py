"""The file of one job on one node. In: usage and step times. Out: JSON lines that get their name when they are whole.

While it grows, the file has a leading dot. Its last line counts the lines, so that a torn file is known as such. What a
killed watcher left behind is closed by the next one on that node.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from pal_slurm.probe import spool
from pal_slurm.probe.document import FORMAT, VERSION, Device, Fault, StepTimes, Usage, line
from pal_slurm.probe.errors import ProbeError

MOST_STEP_LINES = 20_000  # in one part: a job that reports more is not worth more room


@dataclass(slots=True)
class JobFile:
    directory: Path
    job: str
    node: str
    part: int
    made_by: str
    app: str | None
    devices: tuple[Device, ...]
    begun_at: float
    user: int | None = None  # whose job it is, as the kernel tells
    _lines: int = 0
    _step_lines: int = 0
    _file: IO[bytes] | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return f"job-{self.job}-{self.node}-{self.begun_at:.0f}-{self.part:04d}.jsonl"

    @property
    def _beside(self) -> Path:
        return self.directory / f".{self.name}.part"

    def write(self, usage: Iterable[Usage], steps: Iterable[StepTimes], faults: Iterable[Fault] = ()) -> None:
        records = [{"line": "usage", **asdict(each)} for each in usage]
        for each in steps:
            self._step_lines += 1
            if self._step_lines <= MOST_STEP_LINES:
                records.append({"line": "steps", **asdict(each)})
        records += [{"line": "fault", **asdict(each)} for each in faults]
        if records:
            self._append(records)

    def close(self, now: float, last: bool) -> Path | None:
        """The finished file; None: there was nothing to say."""
        if self._file is None:
            return None
        self._append([{"line": "end", "ended_at": now, "last": last, "lines": self._lines + 1}])
        os.fsync(self._file.fileno())
        path = self.directory / self.name
        spool.settle(self._beside, path)
        self._file.close()
        self._file = None
        return path

    def _append(self, records: list[dict[str, object]]) -> None:
        try:
            if self._file is None:
                self._file = self._begin()
            text = "".join(line(record) for record in records)
            self._file.write(text.encode())
            self._lines += len(records)
        except OSError as error:
            raise ProbeError(f"{self._beside}: can't be written: {error.strerror}") from error

    def _begin(self) -> IO[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND
        file = os.fdopen(os.open(self._beside, flags, 0o644), "wb", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        head = {"format": FORMAT, "version": VERSION, "kind": "job", "job": self.job, "node": self.node}
        head |= {"part": self.part, "made_by": self.made_by, "app": self.app, "begun_at": self.begun_at}
        head |= {} if self.user is None else {"user": self.user}
        file.write(line({**head, "devices": [asdict(device) for device in self.devices]}).encode())
        self._lines = 1
        return file


def salvage(directory: Path, node: str, now: float) -> list[Path]:
    """Close our files of this node that nobody writes any more; a line that was cut off is dropped.

    Others may write the spool: what is a link there, or another user's file, is not ours to change.
    """
    saved: list[Path] = []
    try:
        found = sorted(directory.glob(f".job-*-{node}-*.jsonl.part"))
    except PermissionError:
        return saved  # users may make files there, and list none
    for path in found:
        with contextlib.suppress(OSError), _own(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: it is in use
            if _finish(file, now):
                final = path.with_name(path.name.removeprefix(".").removesuffix(".part"))
                spool.settle(path, final)
                saved.append(final)
            else:
                path.unlink()
    return saved


def _own(path: Path) -> IO[bytes]:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_nlink != 1:
        os.close(handle)
        raise PermissionError(f"{path} is not a file of ours")
    return os.fdopen(handle, "r+b")


def _finish(file: IO[bytes], now: float) -> bool:
    """Whether there is anything worth keeping."""
    data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    lines = whole.count(b"\n")
    if lines < 2:
        return False
    ended = any(b'"line":"end"' in each for each in whole.splitlines()[-1:])
    file.seek(len(whole))
    file.truncate()
    if not ended:
        at = min(now, os.fstat(file.fileno()).st_mtime)
        file.write(json.dumps({"line": "end", "ended_at": at, "last": False, "lines": lines + 1}).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
    return True
