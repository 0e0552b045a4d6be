"""Where a fault injector sits. In: each question and each update, before and after. Out: what goes wrong with it.

Nothing goes wrong here. Whoever wants trouble overrides a method; each may also move the clock on (a late answer), let
a user edit a job, drain a node or restart slurmctld, all at that very moment.
"""

from __future__ import annotations

from enum import Enum, auto

from pal_slurm.model import Snapshot
from pal_slurm.slurm.edits.rewrite import Rewrite


class AnswerFate(Enum):
    """What becomes of one update."""

    WHOLE = auto()
    HALF = auto()  # only the first of its fields are set, and slurmctld says no: its updates are not atomic
    TWICE = auto()  # it arrives twice
    LOST = auto()  # slurmctld never hears of it, and it is taken for done


class Trouble:
    def asked(self, verb: str) -> None:
        """Before slurmctld does anything; SlurmUnavailable: the question is lost."""

    def answered(self, verb: str) -> None:
        """It is done; SlurmUnavailable: the answer is lost."""

    def update(self, target: str, asked: Rewrite) -> AnswerFate | str:
        """A text: slurmctld refuses this update in these words."""
        return AnswerFate.WHOLE

    def told(self, fresh: Snapshot) -> Snapshot:
        """What is seen of it: an older one, say."""
        return fresh
