"""Time, injected. In: nothing. Out: wall time for records, monotonic time for intervals; tests bring their own."""

from __future__ import annotations

import time
from typing import Protocol

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the latter stands still meanwhile


class Clock(Protocol):
    def now(self) -> float:
        """Epoch seconds: for records and for what Slurm is told."""

    def monotonic(self) -> float:
        """For intervals: a stepped wall clock must not make a lease or a budget jump.

        A machine that was suspended has missed that time: others did not.
        """

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(_SINCE_BOOT)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
