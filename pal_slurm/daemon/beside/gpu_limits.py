"""Who may share as far as limits on GPUs go. In: Slurm's accounting, asked now and then. Out: jobs that a limit binds.

Asked in a thread, for slurmdbd may be slow; what it told last stands while it is away: no limit can be set then. Until
there is an answer everybody counts as bound who has not got a part yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Job, Snapshot
from pal_slurm.model.gpu_limits import NOBODY_LIMITED, Unlimited
from pal_slurm.words import plain

log = logging.getLogger("pald")
ASK_EVERY_S = 120.0
ASK_AGAIN_S = 30.0  # after no answer
FIRST_S = 2.0  # that pald waits for it before its first cycle


@dataclass
class GpuLimits:
    ask: Callable[[], Unlimited] = lambda: NOBODY_LIMITED
    faults: Faults = field(default_factory=Faults)
    found: Unlimited | None = None
    note: str = ""  # for `palctl status`: that nobody shares, and why
    beside: Beside = field(init=False)
    _asked: float = float("-inf")

    def __post_init__(self) -> None:
        self.beside = Beside("limits", self.faults)

    def seen(self, snapshot: Snapshot, now: float, *, parts: bool) -> Snapshot:
        """With the mark on each job that would share and is bound. `now`: on the monotonic clock."""
        if not parts:
            self.note = ""
            return snapshot
        if now - self._asked >= (ASK_AGAIN_S if self.note else ASK_EVERY_S) and not self.beside.busy:
            self._asked = now
            self.beside.begin(self._ask)
        pending, running = (tuple(map(self._marked, jobs)) for jobs in (snapshot.pending, snapshot.running))
        return replace(snapshot, pending=pending, running=running)

    def begin(self, now: float) -> None:
        """Before the first cycle, which finds the answer there if Slurm is quick; no cycle waits for it."""
        self._asked = now
        if self.beside.begin(self._ask):
            self.beside.wait(FIRST_S)

    def ask_anew(self) -> None:
        self._asked = float("-inf")

    def _marked(self, job: Job) -> Job:
        if not job.hint.share or (job.shard if self.found is None else self.found.has(job)):
            return job
        return replace(job, gpus_limited=True)

    def _ask(self) -> None:
        note = ""
        try:
            self.found = self.ask()
        except SlurmUnavailable as error:
            stand = "those told last stand" if self.found is not None else "until then nobody shares a GPU"
            note = f"Slurm does not tell limits on GPUs; {stand} ({plain(str(error))})"
        if note != self.note:
            log.warning("%s", note or "Slurm tells limits on GPUs again")
        self.note = note
