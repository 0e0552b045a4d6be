"""No exception ends pald but those it means to end by. In: work that may fail. Out: its fault, told and counted.

A fault is ours when no PalError says what is wrong. The journal gets its traceback once, and a sentence,
`pal_faults_total` counts it, `palctl status` shows the last one; cycles that fail come at growing intervals. A job's
words may stand in its text, so it is made safe to print (P9).
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.errors import PalError
from pal_slurm.words import plain, printable

log = logging.getLogger("pald")
LONGEST_PAUSE_S = 60.0  # systemd hears of us after each cycle: well within the unit's WatchdogSec
MOST_ROWS = 10_000
PLACES = (
    "cycle", "deciding", "undoing", "excluding", "moving", "observing", "learning", "forgetting", "resuming",
    "entitling", "limits", "reasons", "rows", "qos", "figures", "sentence", "bell", "alive", "status", "showing",
    "users", "reload", "settings", "forecast", "end",
)  # fmt: skip


@dataclass
class Faults:
    count: Callable[[str], None] = lambda where: None
    in_a_row: int = 0  # cycles
    total: int = 0
    last: str = ""
    _times: Counter[tuple[str, str, str]] = field(default_factory=Counter, repr=False)
    _rows: dict[str, None] = field(default_factory=dict, repr=False)  # those that were told of, the oldest first
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @contextmanager
    def contained(self, where: str, also: tuple[type[PalError], ...] | type[PalError] = ()) -> Iterator[None]:
        """What is within may fail without harm to what comes after it; a PalError is somebody else's to judge.

        `also`: but those, which are a line in the log: around the cycle nothing ends pald, whoever does not answer.
        """
        try:
            yield
        except also as error:
            log.warning("%s: %s", where, plain(str(error)))
        except (PalError, MemoryError):
            raise
        except Exception as error:
            self.happened(where, error, alone=True)

    def happened(self, where: str, error: Exception, *, alone: bool = False) -> str:
        """Count a fault; the sentence that tells of it. `alone`: nobody else will log that sentence."""
        kind, place = type(error).__name__, _place(error)
        text = printable(str(error))
        said = f"{where}: a fault of ours, {kind}{': ' + text if text else ''}{place}"
        with self._lock:
            self.total, self.last = self.total + 1, said
            self._times[where, kind, place] += 1
            times = self._times[where, kind, place]
        self.count(where)
        if times == 1:
            for line in "".join(traceback.format_exception(error)).splitlines():
                log.error("%s: %s", where, plain(line))
        if alone and times & (times - 1) == 0:  # the 1st, 2nd, 4th ...: what comes with each cycle fills no disk
            log.error("%s%s", said, f" ({times} times by now)" if times > 1 else "")
        return said

    def row_refused(self, name: str, error: Exception) -> None:
        """A row that the database does not take, `name` says whose: told once, counted each time."""
        self.count("rows")
        with self._lock:
            self.total, self.last = (
                self.total + 1,
                f"rows: {plain(name)} can't be written down: {printable(str(error), 200)}",
            )
            if name in self._rows:
                return
            self._rows[name] = None
            if len(self._rows) > MOST_ROWS:
                del self._rows[next(iter(self._rows))]
        log.error("%s; the cycle goes on without it", self.last)

    def cycle_ended(self, well: bool) -> None:
        self.in_a_row = 0 if well else self.in_a_row + 1

    def pause_s(self, interval_s: float) -> float:
        """The least time to the next cycle: none after a good one, twice as long after each that failed."""
        return min(LONGEST_PAUSE_S, interval_s * 2.0 ** min(self.in_a_row - 1, 10)) if self.in_a_row else 0.0

    @property
    def note(self) -> str:
        """For `palctl status`; empty: there was none since the start. Rounded, so that it is seldom new."""
        if not self.total:
            return ""
        least = 1 << (self.total.bit_length() - 1)
        often = "once" if self.total == 1 else f"at least {least} times"
        going = "; cycles fail, jobs start by themselves when their leases end" if self.in_a_row else ""
        return f"a fault of pald, {often} since its start, the last in {self.last}{going}; the journal has more"


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
