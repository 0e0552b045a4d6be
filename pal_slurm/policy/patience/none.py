"""`none`: start as soon as it fits."""

from __future__ import annotations

from pal_slurm.model import Job
from pal_slurm.policy.seams import Habits, Offer, Wait, patiences


class NoPatience:
    habits = Habits()

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        return None


patiences.register("none", lambda _: NoPatience())
