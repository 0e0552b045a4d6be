"""`none`: start as soon as it fits."""

from __future__ import annotations

from pal_slurm.model import Job
from pal_slurm.policy.seams import Offer, Wait, patiences


class NoPatience:
    def waits(self, job: Job, offer: Offer) -> Wait | None:
        return None


patiences.register("none", lambda _: NoPatience())
