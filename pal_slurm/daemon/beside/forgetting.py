"""pald's forgetting. In: how long rows are kept. Out: old rows removed once an hour, in a thread beside the cycle."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.store import DecisionRepo, Store
from pal_slurm.store.retention import Keep, rules, sweep

EVERY_S = 3600.0
FIRST_S = 600.0  # after the start
AGAIN_S = 60.0  # when no thread was to be had
log = logging.getLogger("pald")


@dataclass
class Forgetter:
    store: Store
    cluster: str
    decisions: DecisionRepo
    faults: Faults = field(default_factory=Faults)
    due: float | None = None
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
        self.decisions.forget_written()
        begun = self.beside.begin(lambda: self._forget(now, keep))
        if begun:
            self.due = now + EVERY_S
        return begun

    def _forget(self, now: float, keep: Keep) -> None:
        removed = sum(sweep(self.store, rule) for rule in rules(keep, now, self.cluster))
        log.log(logging.INFO if removed else logging.DEBUG, "forgetting: %d old rows removed", removed)
