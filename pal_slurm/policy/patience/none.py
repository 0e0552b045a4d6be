"""`none`: start as soon as it fits."""

from __future__ import annotations

from pal_slurm.model import Job, Tier
from pal_slurm.policy.seams import patiences


class NoPatience:
    def waits(self, job: Job, tier: Tier, waited_s: float) -> bool:
        return False


patiences.register("none", lambda _: NoPatience())
