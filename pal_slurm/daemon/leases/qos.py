"""QOS that may preempt, heard from Slurm now and then. In: Slurm's commands, the time. Out: names, for alive.py.

slurmdbd may be slow or away: it is asked beside the cycle, and the last answer stays until there is another.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.commands.qos import preempting
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.words import plain

log = logging.getLogger("pald")
EVERY_S = 60.0


@dataclass
class Preempting:
    commands: Commands
    names: tuple[str, ...] = ()
    _asked: float = float("-inf")
    _trouble: str = ""
    faults: Faults = field(default_factory=Faults)
    _beside: Beside = field(init=False)

    def __post_init__(self) -> None:
        self._beside = Beside("qos", self.faults)

    def heard(self, monotonic: float) -> tuple[str, ...]:
        """What is known so far; asks anew when it is time."""
        if monotonic - self._asked >= EVERY_S and not self._beside.busy:
            self._asked = monotonic
            self._beside.begin(self._ask)
        return self.names

    @property
    def note(self) -> str:
        """For `palctl status`: who is not leased, and what to do where that is not meant."""
        if not self.names:
            return ""
        names = ", ".join(plain(name) for name in self.names)
        return f"jobs of QOS {names} are not placed: they may preempt (lease.spare_preempting)"

    def wait(self) -> None:
        self._beside.wait()

    def _ask(self) -> None:
        trouble = ""
        try:
            names = preempting(self.commands)
            if names != self.names:
                self.names = names
                log.warning("%s", self.note or "no QOS may preempt any more")
        except SlurmUnavailable as e:
            trouble = str(e)
        if trouble and trouble != self._trouble:
            log.info("which QOS may preempt can't be asked (preempt_qos in pal_lua.conf counts): %s", trouble)
        self._trouble = trouble
