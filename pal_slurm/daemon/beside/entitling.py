"""What each job is owed, where policy.entitlement says so. In: the queue, Slurm's fair-share tree. Out: DueNow.

Both are found out in a thread beside the cycle: slurmdbd may be slow, and dividing among thousands of jobs takes time.
Until there is an answer, and where there is none in its time, what was owed before stands.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.round import Round
from pal_slurm.errors import BadInput, SlurmUnavailable
from pal_slurm.model import NO_SHARES, FairShares, Job, JobRef
from pal_slurm.policy.entitlement.due_now import DueNow, due_now
from pal_slurm.policy.seams import Entitlement
from pal_slurm.policy.solving import NoAnswer
from pal_slurm.words import plain

log = logging.getLogger("pald")
ASK_EVERY_S = 300.0
SHARE = 0.05  # of a core, for divisions


@dataclass
class Entitling:
    ask: Callable[[], FairShares] = lambda: NO_SHARES
    faults: Faults = field(default_factory=Faults)
    fair: FairShares = NO_SHARES
    found: DueNow | None = None
    trouble: str = ""
    beside: Beside = field(init=False)
    _asked: float = float("-inf")
    _not_before: float = float("-inf")
    _who: frozenset[tuple[JobRef, bool]] = frozenset()

    def __post_init__(self) -> None:
        self.beside = Beside("entitling", self.faults)

    def due(self, entitlement: Entitlement | None, round: Round, of_limit: float | None, now: float) -> DueNow | None:
        """As far as it is known by now; None: nobody is owed anything. `now`: on the monotonic clock."""
        if entitlement is None:
            self.found = None
            return None
        if self.found is None or self.found.entitlement != entitlement.name:
            self.found, self._who = DueNow(entitlement.name), frozenset()
        who = frozenset((job.key, job.pending) for job in (*round.view.pending, *round.view.running) if job.gpu_job)
        stale = now - self._asked >= ASK_EVERY_S
        if (stale or who != self._who) and now >= self._not_before and not self.beside.busy:
            self._who, self._asked = who, now if stale else self._asked
            self.beside.begin(lambda: self._find(entitlement, round, of_limit, now, stale))
        round.due = self.found
        return self.found

    @property
    def note(self) -> str:
        """For `palctl status`."""
        return self.trouble if self.found is not None else ""

    def _find(self, entitlement: Entitlement, round: Round, of_limit: float | None, now: float, stale: bool) -> None:
        if stale:
            try:
                self.fair = self.ask()
            except SlurmUnavailable as error:
                log.warning("policy.entitlement: Slurm's fair shares can't be asked: %s", error)
        begun, trouble = time.thread_time(), ""
        try:
            fair = with_wishes(self.fair, (*round.view.pending, *round.view.running))
            self.found = due_now(entitlement, round.view, round.knowledge, fair, of_limit)
            trouble = self.found.note
        except (NoAnswer, BadInput) as none:
            trouble = f"what jobs are owed can't be worked out ({plain(str(none))}); what they were owed before stands"
        if trouble and trouble != self.trouble:
            log.warning("policy.entitlement %s: %s", entitlement.name, trouble)
        self.trouble = trouble and f"policy.entitlement {entitlement.name}: {trouble}"
        self._not_before = now + (time.thread_time() - begun) / SHARE


def with_wishes(fair: FairShares, jobs: Iterable[Job]) -> FairShares:
    """pal:by=TIME beside Slurm's own deadlines: the first of the two counts."""
    found = dict(fair.deadlines)
    for job in jobs:
        if job.hint.by:
            try:
                by = datetime.fromisoformat(job.hint.by).timestamp()
            except (ValueError, OverflowError, OSError):
                continue  # the 31st of June
            found[job.id] = min(by, found.get(job.id, by))
    return replace(fair, deadlines=found)
