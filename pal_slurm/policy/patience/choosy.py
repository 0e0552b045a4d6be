"""`choosy`: don't take a bad GPU at once when a short wait costs less.

A job on GPUs of slowdown s loses the share 1 - 1/s of its run time against median ones. Nobody knows when better ones
come free, so it waits for a part of what it would lose, and then takes what there is: whatever happens, it loses little
more than it would have anyway (the ski-rental rule). How long it runs is told by its time limit at most, and limits
are generous, so `SHARE` is small. What it declines may go to jobs behind it, which often do not mind.
"""

from __future__ import annotations

from pal_slurm.model import Job, Reason
from pal_slurm.policy.seams import Offer, patiences

BAD = 1.05  # a slowdown that is worth a thought
SHARE = 0.3
MOST_S = 1800.0


class Choosy:
    def waits(self, job: Job, offer: Offer) -> Reason | None:
        if offer.slowdown <= BAD or job.time_limit_s is None:
            return None
        if offer.faster < (job.shape.least_gpus if job.shape else 1):  # it can't get anything better
            return None
        worth = min(MOST_S, SHARE * job.time_limit_s * (1.0 - 1.0 / offer.slowdown))
        return Reason.BETTER_GPUS_SOON if offer.declined_s < worth else None


patiences.register("choosy", lambda _: Choosy())
