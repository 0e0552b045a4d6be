"""What each job is owed, where policy.entitlement says so. In: the queue, Slurm's fair-share tree. Out: DueNow.

Both are found out in a thread beside the cycle: slurmdbd may be slow, and dividing among thousands of jobs takes time.
Until there is an answer, and where there is none in its time, what was owed before stands; and so do the weights that
Slurm told last, while slurmdbd is away.
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
from pal_slurm.model import NO_SHARES, FairShares, Job, JobRef, RunTimes
from pal_slurm.policy.entitlement.debts import Debts, could_start
from pal_slurm.policy.entitlement.due_now import due_now
from pal_slurm.policy.entitlement.precedence import DueNow
from pal_slurm.policy.seams import Entitlement
from pal_slurm.policy.solving import NoAnswer
from pal_slurm.report.text import clock
from pal_slurm.words import plain

log = logging.getLogger("pald")
ASK_EVERY_S = 300.0
ASK_AGAIN_S = 60.0  # after no answer
SHARE = 0.05  # of a core, for divisions


@dataclass
class Entitling:
    ask: Callable[[], FairShares] = lambda: NO_SHARES
    faults: Faults = field(default_factory=Faults)
    fair: FairShares = NO_SHARES
    found: DueNow | None = None
    trouble: str = ""
    unanswered: int = 0  # divisions for which there was no answer, in its time or at all
    untold: str = ""  # that the weights could not be told
    cpu: Callable[[], float] = time.thread_time
    beside: Beside = field(init=False)
    _asked: float = float("-inf")
    _not_before: float = float("-inf")
    _who: frozenset[tuple[JobRef, bool]] = frozenset()

    def __post_init__(self) -> None:
        self.beside = Beside("entitling", self.faults)

    def due(
        self, entitlement: Entitlement | None, round: Round, run_times: RunTimes, now: float, debts: Debts
    ) -> DueNow | None:
        """As far as it is known by now; None: nobody is owed anything. `now`: on the monotonic clock."""
        if entitlement is None:
            self.found, self.untold = None, ""
            return None
        if self.found is None or self.found.entitlement != entitlement.name:
            self.found, self._who = DueNow(entitlement.name), frozenset()
        who = frozenset(
            (job.key, job.pending and could_start(job, round.now))
            for job in (*round.view.pending, *round.view.running) if job.gpu_job
        )  # fmt: skip
        stale = now - self._asked >= (ASK_AGAIN_S if self.untold else ASK_EVERY_S)
        if (stale or who != self._who) and now >= self._not_before and not self.beside.busy:
            self._who, self._asked = who, now if stale else self._asked
            self.beside.begin(lambda: self._find(entitlement, round, run_times, now, stale))
        round.due = replace(self.found, fair=self.fair).at(round.view, debts)
        return round.due

    def ask_anew(self) -> None:
        """Who reloads pald may have changed what Slurm says."""
        self._asked = float("-inf")

    @property
    def notes(self) -> tuple[str, ...]:
        """For `palctl status`."""
        if self.found is None:
            return ()
        often = f"; {self.unanswered} times so far" if self.unanswered and self.trouble else ""
        return (self.trouble + often, self.untold)

    def _ask(self, now: float) -> None:
        """Weights that nobody tells stay as they were."""
        known = self.fair
        try:
            told = self.ask()
        except SlurmUnavailable as error:
            told = replace(known, untold=plain(str(error)))
        untold = told.untold
        if untold:
            told = replace(told, accounts=known.accounts, users=known.users, qos=known.qos, asked=known.asked)
        else:
            told = replace(told, asked=now)
        stand = "all accounts count the same" if told.asked is None else f"those of {clock(told.asked)} stand"
        said = untold and f"policy.entitlement: Slurm does not tell the weights of accounts; {stand} ({untold})"
        if said != self.untold:
            log.warning("%s", said or "policy.entitlement: Slurm tells the weights of accounts again")
        self.fair, self.untold = told, said

    def _find(self, entitlement: Entitlement, round: Round, run_times: RunTimes, now: float, stale: bool) -> None:
        if stale:
            self._ask(round.now)
        begun, trouble = self.cpu(), ""
        try:
            fair = wished(self.fair, (*round.view.pending, *round.view.running))
            self.found = due_now(entitlement, round.view, round.knowledge, fair, run_times)
            trouble = self.found.note
        except (NoAnswer, BadInput) as none:
            self.unanswered += 1
            trouble = f"what jobs are owed can't be worked out ({plain(str(none))}); what they were owed before stands"
        if trouble and trouble != self.trouble:
            log.warning("policy.entitlement %s: %s", entitlement.name, trouble)
        self.trouble = trouble and f"policy.entitlement {entitlement.name}: {trouble}"
        self._not_before = now + (self.cpu() - begun) / SHARE


def wished(fair: FairShares, jobs: Iterable[Job]) -> FairShares:
    """With what users say by pal:by=TIME."""
    found = {}
    for job in jobs:
        if job.hint.by:
            try:
                found[job.id] = datetime.fromisoformat(job.hint.by).timestamp()
            except (ValueError, OverflowError, OSError):
                continue  # the 31st of June
    return replace(fair, wishes=found)
