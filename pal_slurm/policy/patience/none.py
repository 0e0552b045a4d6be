"""`none`: start as soon as it fits."""

from __future__ import annotations

from pal_slurm.model import Job, Reason
from pal_slurm.policy.seams import Offer, patiences


class NoPatience:
    def waits(self, job: Job, offer: Offer) -> Reason | None:
        return None


patiences.register("none", lambda _: NoPatience())
