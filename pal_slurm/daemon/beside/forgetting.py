"""pald's forgetting. In: how long rows are kept. Out: old rows removed once an hour, in a thread beside the cycle.

What is old a clock tells, and a clock that jumps would have everything removed: where it is further ahead than the time
since rows were last removed, as the monotonic clock counts it, nothing is removed for a day, and pald says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.store import DecisionRepo, Store
from pal_slurm.store.retention import Keep, rules, sweep
from pal_slurm.store.state import stamp, stamped

EVERY_S = 3600.0
FIRST_S = 600.0  # after the start
AGAIN_S = 60.0  # when no thread was to be had
AWAY_S = 14 * 86_400.0  # so long pald may have been away
DOUBT_S = 86_400.0  # so long an admin has to set a clock right
log = logging.getLogger("pald")


@dataclass
class Forgetter:
    store: Store
    cluster: str
    decisions: DecisionRepo
    faults: Faults = field(default_factory=Faults)
    monotonic: Callable[[], float] = time.monotonic
    due: float | None = None
    note: str = ""  # for `palctl status`
    _sound: tuple[float, float] | None = None  # a time that was believed, and the monotonic clock then
    _doubted: float | None = None  # since when the clock is not believed, on the monotonic clock
    beside: Beside = field(init=False)

    def __post_init__(self) -> None:
        self.beside = Beside("forgetting", self.faults)

    def begin_when_due(self, now: float, keep: Keep) -> bool:
        """Begin to remove what is old, when it is time and the last time is over."""
        if self.due is None or self.due > now + EVERY_S:  # the second: the clock was set back
            self.due = now + FIRST_S
        if now < self.due or self.beside.busy:
            return False
        self.due = now + AGAIN_S
        if not self._believed(now):
            return False
        self.decisions.forget_written()
        begun = self.beside.begin(lambda: self._forget(now, keep))
        if begun:
            self.due = now + EVERY_S
        return begun

    def _believed(self, now: float) -> bool:
        at = self.monotonic()
        if self._sound is None:
            self._sound = (stamped(self.store, self._what) or now, at)
        ahead = now - self._sound[0] - (at - self._sound[1])
        if ahead > AWAY_S:
            if self._doubted is None:
                self._doubted = at
                self.note = f"the clock has jumped {ahead / DOUBT_S:.0f} days ahead: no old rows are removed for a day"
                log.warning("%s; set it right, or what is kept by its age is lost", self.note)
            if at - self._doubted < DOUBT_S:
                return False
        self._sound, self._doubted, self.note = (now, at), None, ""
        return True

    @property
    def _what(self) -> str:
        return f"forgot:{self.cluster}"

    def _forget(self, now: float, keep: Keep) -> None:
        removed = sum(sweep(self.store, rule) for rule in rules(keep, now, self.cluster))
        stamp(self.store, self._what, now)
        log.log(logging.INFO if removed else logging.DEBUG, "forgetting: %d old rows removed", removed)
