"""`fixed(RACK,CLUSTER)`: a node at once, a rack after so many seconds of waiting, anything after so many.

Delay scheduling with timers given by hand. A job never waits for a span that it could not have on an idle cluster.
"""

from __future__ import annotations

from pal_slurm.errors import ConfigError
from pal_slurm.model import Job, Reason, Tier
from pal_slurm.policy.seams import Habits, Offer, Wait, patiences


class Fixed:
    habits = Habits(by_tier=True, since_submit=True)

    def __init__(self, rack_s: int, cluster_s: int) -> None:
        if cluster_s < rack_s:
            raise ConfigError(f"patience fixed({rack_s},{cluster_s}): the wait for a rack is the longer one")
        self._after = {Tier.RACK: float(rack_s), Tier.CLUSTER: float(cluster_s)}

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        after_s = self._after.get(offer.tier, 0.0)
        if offer.tier <= offer.narrowest or offer.waited_s >= after_s:
            return None
        return Wait(Reason.BETTER_SPAN_SOON, after_s)


patiences.register("fixed", Fixed, (3600, 7200))
