"""Whose jobs were seen to resume after requeues. In: Slurm's accounting, our outcomes. Out: pairs, for the guard.

Asked once an hour, only where `moves.mode` is `proven`, and in a thread: sacct may take minutes. Until it has answered,
and where it can't, nobody is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pal_slurm.config import Config
from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.learning.resumes import resumed
from pal_slurm.model import PastRun
from pal_slurm.slurm.commands.accounts import past_runs
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.store import OutcomeRepo

DAYS = 14
AGAIN_S = 3600.0
Pairs = frozenset[tuple[str, str]]


def accounts_of(commands: Commands) -> Callable[[], Sequence[PastRun]]:
    return lambda: past_runs(commands, DAYS)


def proven(runs: Sequence[PastRun], outcomes: OutcomeRepo, now: float) -> Pairs:
    """Only jobs that named their application: another one may be anything."""
    started = outcomes.since(now - DAYS * 86_400)
    return resumed(runs, {got.job: (got.app, sum(map(len, got.gpus))) for got in started if got.app})


@dataclass
class Resuming:
    outcomes: OutcomeRepo
    accounts: Callable[[], Sequence[PastRun]]
    faults: Faults = field(default_factory=Faults)
    found: Pairs = frozenset()
    looked_at: float | None = None
    beside: Beside = field(init=False)

    def __post_init__(self) -> None:
        self.beside = Beside("resuming", self.faults)

    def pairs(self, config: Config, now: float) -> Pairs:
        """(user, application), as far as it is known by now."""
        if config.moves.mode != "proven":
            return frozenset()
        due = self.looked_at is None or not 0.0 <= now - self.looked_at < AGAIN_S
        if due and not self.beside.busy:
            self.looked_at = now
            self.beside.begin(lambda: self._look(now))
        return self.found

    def _look(self, now: float) -> None:
        self.found = proven(self.accounts(), self.outcomes, now)
