"""`earlier-finish`: a job declines a start only while it would itself be done sooner by that.

A start now takes the run time times the slowdown of what is free. Waiting takes until better GPUs are free, by what is
expected of those who run, and then the run time there. The job waits for the start that is over first, if that saves
more than pald's own edit costs; it looks again when the better start should have come, or when there is a better one.
Forecasts err: what a job declines in all is at most `MOST` times what it can gain, whatever is forecast. A job that is
short, or of which nothing is known, gains little, so it starts at once; a long one may wait for hours.
"""

from __future__ import annotations

from pal_slurm.model import Job, Reason
from pal_slurm.policy.seams import Habits, Offer, Wait, patiences

EDIT_S = 2.0  # from our edit until Slurm has started the job
LEAST = 0.01  # of the run time: a smaller gain is within what nobody knows
AGAIN_S = 60.0  # until the next look at least
MOST = 2.0


class EarlierFinish:
    habits = Habits(keeps_word=True, forecasts=True)

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        if not offer.better:
            return None
        now_s = offer.run_s * offer.slowdown
        best = min(offer.better, key=lambda better: better.in_s + offer.run_s * better.slowdown)
        gain_s = offer.run_s * (offer.slowdown - best.slowdown)
        if best.in_s + EDIT_S >= gain_s - LEAST * now_s or offer.declined_s >= MOST * gain_s:
            return None
        why = Reason.BETTER_SPAN_SOON if best.tier < offer.tier else Reason.BETTER_GPUS_SOON
        return Wait(why, min(MOST * gain_s, offer.declined_s + max(best.in_s, AGAIN_S)))


patiences.register("earlier-finish", lambda _: EarlierFinish())
