"""Work beside the cycle, which it must not hold up. In: a piece of work. Out: done in a thread, one at a time.

What goes wrong in it, and a thread that is not to be had, is a line in the log, and the next time comes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pal_slurm.daemon.faults import Faults
from pal_slurm.errors import PalError
from pal_slurm.words import plain

log = logging.getLogger("pald")


@dataclass
class Beside:
    name: str
    faults: Faults = field(default_factory=Faults)
    _thread: threading.Thread | None = field(default=None, repr=False)

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, work: Callable[[], None]) -> bool:
        """False: no thread is to be had now (TasksMax of the unit, a limit of the user)."""
        thread = threading.Thread(target=self._run, args=(work,), name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("%s: put off: %s", self.name, error)
            return False
        self._thread = thread
        return True

    def wait(self, seconds: float = 10.0) -> None:
        """Until what was begun is over; whatever is not will be done by the next pald."""
        if self._thread:
            self._thread.join(seconds)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (PalError, OSError) as error:
            log.warning("%s: %s", self.name, plain(str(error)))
        except Exception as error:
            log.error("%s; nothing is half done", self.faults.happened(self.name, error))
