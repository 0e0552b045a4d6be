"""Which processes are a cluster's: by pid and start time, or by the mark that they see among their mounts."""

import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        try:
            stat = (_PROC / str(pid) / "stat").read_text()
        except OSError:
            return None
        after_name = stat.rpartition(")")[2].split()
        return None if after_name[0] == "Z" else cls(pid, int(after_name[19]))

    @classmethod
    def told(cls, text: str) -> "Process | None":
        """`PID STARTTIME` -> that process, whether it still runs or not."""
        words = text.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return None
        return cls(int(words[0]), int(words[1]))

    @classmethod
    def parse(cls, text: str) -> "Process | None":
        """`PID STARTTIME` -> that process, if it still runs."""
        named = cls.told(text)
        return named if named and cls.of(named.pid) == named else None

    def __str__(self) -> str:
        return f"{self.pid} {self.start}"

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal it, and surely no other: the pid is pinned before its start time is looked at."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if Process.of(self.pid) == self:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)

    def wait_gone(self, seconds: float) -> bool:
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return True
        try:
            if Process.of(self.pid) != self:
                return True
            return bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)


def all_pids() -> Iterator[int]:
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            yield int(entry.name)


def in_world(mark: str) -> list[Process]:
    """Every process that sees the mark, but the caller."""
    seen: dict[str, bool] = {}
    found = []
    for pid in all_pids():
        if pid == os.getpid():
            continue
        try:
            namespace = str((_PROC / str(pid) / "ns" / "mnt").readlink())
            if namespace not in seen:
                seen[namespace] = f" {mark} " in (_PROC / str(pid) / "mountinfo").read_text()
        except OSError:
            continue
        process = Process.of(pid) if seen[namespace] else None
        if process:
            found.append(process)
    return found


def kill_world(mark: str, seconds: float = 10.0) -> list[Process]:
    """Kill all that see the mark, their new children too; returns what would not die in time."""
    deadline = time.monotonic() + seconds
    while (left := in_world(mark)) and time.monotonic() < deadline:
        for process in left:
            process.kill()
        left[0].wait_gone(0.05)
    return left
