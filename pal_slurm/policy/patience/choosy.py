"""`choosy`: don't take bad GPUs, or GPUs far apart, at once when a wait costs less.

An offer that is s times as slow as median GPUs of the narrowest possible span costs a job the share 1 - 1/s of the run
time that it would have there. Nobody knows when better ones come free, so it waits for a part of what it would lose,
and then takes what there is: whatever happens, it loses little more than it would have anyway (the ski-rental rule).
How long it runs is told by its time limit at most; limits are generous, hence `SHARE`, and sometimes absurd: so a job
is kept half an hour at most, or a tenth longer than it has waited for its turn. What it declines goes to jobs behind
it, which often do not mind. A job spread over nodes holds all its GPUs for longer, so where many wait, they gain more
by the patience of a few than those few lose.
"""

from __future__ import annotations

from pal_slurm.model import Job, Reason
from pal_slurm.policy.seams import Habits, Offer, Wait, patiences

BAD = 1.05  # a slowdown that is worth a thought
SHARE = 0.5
MOST_S = 1800.0  # a wait beside idle GPUs that nobody minds much,
MOST_OF_WAIT = 0.1  # or that is little beside the wait in the queue before it


class Choosy:
    habits = Habits()

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        if offer.slowdown <= BAD or job.time_limit_s is None:
            return None
        apart = offer.span_cost > 1.0
        if not apart and offer.faster < (job.shape.least_gpus if job.shape else 1):  # it can't get anything better
            return None
        most_s = max(MOST_S, MOST_OF_WAIT * (offer.waited_s - offer.declined_s))
        most_s = min(most_s, SHARE * job.time_limit_s * (1.0 - 1.0 / offer.slowdown))
        if offer.declined_s >= most_s:
            return None
        return Wait(Reason.BETTER_SPAN_SOON if apart else Reason.BETTER_GPUS_SOON, most_s)


patiences.register("choosy", lambda _: Choosy())
