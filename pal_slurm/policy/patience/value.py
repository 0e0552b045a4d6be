"""`value(BOUND,PERCENT)`: wait for a narrower span where that brings more than it is forecast to cost.

A job that would run R seconds on the narrowest span loses R times the difference of the costs by a wider one. By the
limits of what runs, and the share of them that jobs really use, it is told when there will be room. If that is sooner
than what it would lose, it waits, for half of that at most (PERCENT), and then takes what there is: whatever happens,
it loses little more than it would have anyway (the ski-rental rule). Forecasts that prove wrong make the waits of jobs
of that size shorter, good ones longer again: where scarcity makes forecasts wrong, nobody waits ever longer. Slow GPUs
it declines as `choosy` does; while nobody knows what share of their limits jobs use, its bound is `choosy`'s too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pal_slurm.model import Job, Reason
from pal_slurm.policy.patience.choosy import MOST_OF_WAIT, MOST_S, Choosy
from pal_slurm.policy.seams import Habits, Lessons, Offer, Settled, Wait, patiences

BOUND_S = 3 * 86_400
PERCENT = 50
UNKNOWN = 0.5  # of their limits, while nobody has measured what jobs use
SHRINK, GROW, LEAST = 0.9, 1.2, 0.25  # of the trust in forecasts


class Value:
    """Lessons are rows of (size class, trust)."""

    name = "value"
    habits = Habits(keeps_word=True, forecasts=True)

    def __init__(self, bound_s: int, percent: int) -> None:
        self._bound_s, self._part = float(bound_s), percent / 100
        self._slow = Choosy()

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        if job.time_limit_s is None:
            return None
        score = offer._replace(slowdown=offer.slowdown / offer.span_cost, span_cost=1.0)
        slow = self._slow.waits(job, score)
        return max((*self._spans(job, offer), *((slow,) if slow else ())), key=lambda w: w.most_s, default=None)

    def _spans(self, job: Job, offer: Offer) -> Iterator[Wait]:
        trust = _trust(offer.lessons).get(size_class(offer.gpus), 1.0)
        runs_s = (UNKNOWN if offer.of_limit is None else offer.of_limit) * (job.time_limit_s or 0.0)
        bound_s = max(MOST_S, MOST_OF_WAIT * (offer.waited_s - offer.declined_s))
        if offer.of_limit is not None:
            bound_s = max(bound_s, self._bound_s)
        for _, cost, in_s in offer.better:
            gain_s = trust * runs_s * (offer.span_cost - cost)
            most_s = min(self._part * gain_s, bound_s)
            if in_s < gain_s and offer.declined_s < most_s:
                yield Wait(Reason.BETTER_SPAN_SOON, most_s)

    def learns(self, lessons: Lessons, settled: Sequence[Settled]) -> Lessons:
        trust = _trust(lessons)
        for _, offer, now, promised in settled:
            if promised is not None and promised.reason is Reason.BETTER_SPAN_SOON:
                size, was = size_class(offer.gpus), trust.get(size_class(offer.gpus), 1.0)
                trust[size] = max(LEAST, SHRINK * was) if now >= promised.until else min(1.0, GROW * was)
        return tuple(sorted(trust.items()))


def _trust(lessons: Lessons) -> dict[float, float]:
    """What is no such row was kept by nobody of us."""
    return {row[0]: min(max(row[1], LEAST), 1.0) for row in lessons if len(row) == 2}


def size_class(gpus: int) -> float:
    """By powers of two."""
    return float((gpus - 1).bit_length())


patiences.register("value", Value, (BOUND_S, PERCENT))
