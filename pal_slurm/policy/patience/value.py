"""`value(BOUND,PERCENT)`: wait for a narrower span where that brings more than it is expected to cost.

A job that would run R seconds on the narrowest span loses R times the difference of the costs by a wider one, and those
who wait for its GPUs lose as much: so waiting may cost twice that (PERCENT). What it costs is forecast by the limits of
what runs, and the share of them that jobs really use; and it is measured, for jobs of its size, by how long those who
declined waited for each that got what it waited for. Forecasts that prove wrong, and waits that end in vain, make that
longer, so that only those wait for whom more is at stake: where scarcity is, nobody waits ever longer. A job that has
waited for as long as that takes what there is. Slow GPUs it declines as `choosy` does; while nobody knows what share of
their limits jobs use, its bound is `choosy`'s too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pal_slurm.model import Job, Reason
from pal_slurm.policy.patience.choosy import BAD, MOST_OF_WAIT, MOST_S, Choosy
from pal_slurm.policy.seams import Habits, Lessons, Offer, Settled, Wait, patiences

BOUND_S = 14 * 86_400
PERCENT = 200
UNKNOWN = 0.5  # of their limits, while nobody has measured what jobs use
FORECAST = 2.0  # waits that a forecast counts as, beside those that were measured
KEPT = 0.95  # of what was measured, at each wait that ends
MOST = 1 / (1 - KEPT)  # so many waits are the most that can have been kept


class Value:
    """Lessons are rows of (size class, seconds waited, waits that ended well)."""

    name = "value"
    habits = Habits(keeps_word=True, forecasts=True)

    def __init__(self, bound_s: int, percent: int) -> None:
        self._bound_s, self._part = float(bound_s), percent / 100
        self._slow = Choosy()

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        if job.time_limit_s is None:
            return None
        slow = None
        if 2 * offer.faster >= offer.usable and offer.slowdown / offer.span_cost > BAD:
            slow = self._slow.waits(job, offer._replace(slowdown=offer.slowdown / offer.span_cost, span_cost=1.0))
        if not offer.better:
            return slow
        return max((*self._spans(job, offer), *((slow,) if slow else ())), key=lambda w: w.most_s, default=None)

    def _spans(self, job: Job, offer: Offer) -> Iterator[Wait]:
        waited_s, well = _measured(offer.lessons).get(size_class(offer.gpus), (0.0, 0.0))
        runs_s = (UNKNOWN if offer.of_limit is None else offer.of_limit) * (job.time_limit_s or 0.0)
        bound_s = max(MOST_S, MOST_OF_WAIT * (offer.waited_s - offer.declined_s))
        if offer.of_limit is not None:
            bound_s = max(bound_s, self._bound_s)
        for _, cost, in_s in offer.better:
            worth_s = self._part * runs_s * (offer.span_cost - cost)
            expected_s = (FORECAST * in_s + waited_s) / (FORECAST + well)
            if expected_s < worth_s and offer.declined_s < (most_s := min(worth_s, bound_s)):
                yield Wait(Reason.BETTER_SPAN_SOON, most_s)

    def learns(self, lessons: Lessons, settled: Sequence[Settled]) -> Lessons:
        measured = _measured(lessons)
        for _, offer, now, promised in settled:
            if promised is not None and promised.reason is Reason.BETTER_SPAN_SOON:
                size = size_class(offer.gpus)
                waited_s, well = measured.get(size, (0.0, 0.0))
                measured[size] = (KEPT * waited_s + offer.declined_s, KEPT * well + (now < promised.until))
        return tuple((size, *row) for size, row in sorted(measured.items()))


def _measured(lessons: Lessons) -> dict[float, tuple[float, float]]:
    """What is no such row was kept by nobody of us."""
    rows = (row for row in lessons if len(row) == 3)
    return {size: (waited_s, well) for size, waited_s, well in rows if 0 <= waited_s < math.inf and 0 <= well <= MOST}


def size_class(gpus: int) -> float:
    """By powers of two."""
    return float((gpus - 1).bit_length())


patiences.register("value", Value, (BOUND_S, PERCENT))
