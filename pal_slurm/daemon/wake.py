"""When to look again. In: the wake file, a cheap look at the queue, flags. Out: the reason that ended the wait.

Nothing here can block slurmctld: lua and EpilogSlurmctld append a byte to a local file, and we watch its size and time.
The bell (inotify) ends a sleep at once; without it the file is looked at every few milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pal_slurm.daemon.bell import Bell
from pal_slurm.daemon.clock import Clock
from pal_slurm.daemon.leases.alive import plain_file
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.port import Pulse, Slurm

TICK_S = 0.05
MOST_BYTES = 1 << 20  # then the wake file is emptied, and job_submit.lua appends no more
NOTHING = (-1, 0)
# lua rings before slurmctld has made the job's record: a snapshot that is begun at once would miss it.
SETTLE_S = 0.01


@dataclass
class Waker:
    clock: Clock
    slurm: Slurm
    wake_file: Path | None
    pulse_s: float = 0.25  # least time between two cheap looks
    last: Pulse | None = None
    seen: tuple[int, int] = NOTHING
    bell: Bell | None = None  # None: only the size tells, every tick

    def mark(self) -> None:
        """Take note of how things stand before a snapshot: what comes later wakes us."""
        if self.wake_file is not None:
            self._look_after(self.wake_file)
        if self.bell is not None:
            self.bell.listen(self.wake_file)
        self.seen = self._size()

    def wait(self, gap_s: float, interval_s: float, interrupted: Callable[[], bool]) -> str:
        """Sleep for at least `gap_s`, then until woken, at most `interval_s`."""
        begin = self.clock.monotonic()
        looked = begin
        while True:
            waited = self.clock.monotonic() - begin
            if interrupted():
                return "signal"
            if waited >= gap_s:
                if waited >= interval_s:
                    return "interval"
                if self._size() != self.seen:
                    self.clock.sleep(SETTLE_S)
                    return "woken"
                if self.clock.monotonic() - looked >= max(self.pulse_s, gap_s):
                    looked = self.clock.monotonic()
                    if self._changed():
                        return "queue"
            self._pause(TICK_S if waited >= gap_s else min(TICK_S, max(0.001, gap_s - waited)))

    def _pause(self, seconds: float) -> None:
        """Short enough for signals; the bell ends it, unless it has rung already and only the gap is to be kept."""
        if self.bell is None or self._size() != self.seen:
            self.clock.sleep(seconds)
        else:
            self.bell.wait(seconds)

    def _look_after(self, wake_file: Path) -> None:
        """It is there for our group to write, of which slurmctld's user is to be one, and does not grow for ever."""
        try:
            with plain_file(wake_file, 0o660) as fd:
                if os.fstat(fd).st_size > MOST_BYTES:
                    os.ftruncate(fd, 0)
        except OSError:
            return  # nobody rings then; the cheap look finds new jobs all the same

    def _size(self) -> tuple[int, int]:
        """Of the wake file, with the time of its last change."""
        try:
            status = self.wake_file.stat() if self.wake_file is not None else None
        except OSError:
            return NOTHING
        return (status.st_size, status.st_mtime_ns) if status is not None else NOTHING

    def _changed(self) -> bool:
        """slurmctld not answering is no news; the cycle itself will say so."""
        try:
            pulse = self.slurm.pulse()
        except SlurmUnavailable:
            return False
        changed = self.last is not None and pulse != self.last
        self.last = pulse
        return changed
