"""pald's forgetting. In: how long rows are kept. Out: old rows removed once an hour, in a thread beside the cycle."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from pal_slurm.errors import PalError
from pal_slurm.store import DecisionRepo, Store
from pal_slurm.store.retention import Keep, rules, sweep

EVERY_S = 3600.0
FIRST_S = 600.0  # after the start
log = logging.getLogger("pald")


@dataclass
class Forgetter:
    store: Store
    cluster: str
    decisions: DecisionRepo
    due: float | None = None
    _work: threading.Thread | None = field(default=None, repr=False)

    def look(self, now: float, keep: Keep) -> bool:
        """Begin to remove what is old, when it is time and the last time is over."""
        if self.due is None or self.due > now + EVERY_S:  # the second: the clock was set back
            self.due = now + FIRST_S
        if now < self.due or (self._work and self._work.is_alive()):
            return False
        self.due = now + EVERY_S
        self.decisions.forget_written()
        self._work = threading.Thread(target=self._forget, args=(now, keep), name="forgetting", daemon=True)
        self._work.start()
        return True

    def wait(self, seconds: float = 10.0) -> None:
        if self._work:
            self._work.join(seconds)

    def _forget(self, now: float, keep: Keep) -> None:
        try:
            removed = sum(sweep(self.store, rule) for rule in rules(keep, now, self.cluster))
        except PalError as error:
            log.warning("forgetting: %s", error)
        else:
            log.log(logging.INFO if removed else logging.DEBUG, "forgetting: %d old rows removed", removed)
