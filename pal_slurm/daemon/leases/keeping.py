"""Lease keeping. In: waiting jobs in their order. Out: how long each lease should be, and which are due for renewal.

A lease grows with the distance from the job's turn: should pald die, the head of the queue starts first. It never
exceeds `most_s` (10 minutes), and ends are spread by job id, so that 10,000 waiting jobs cost under 20 edits a second:
the sum of 1/length over ranks 0..9,999 with the defaults is 18.7 (test_ten_thousand_waiting_jobs_cost_under_20_edits).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pal_slurm.model import Job, JobRef, LeaseAgain, Renew


@dataclass(frozen=True, slots=True)
class LeaseRules:
    least_s: int = 40
    per_rank_s: float = 2.0
    most_s: int = 600
    margin_s: int = 15  # a lease that ends sooner than this is renewed; nothing else may be written to that job then

    def first(self, asked_s: float, apart_s: float) -> int | None:
        """Of a new job, where looks begin so far apart: it is seen, and seen once more, before it ends.

        None: they are so far apart that it would wait in vain.
        """
        needed = math.ceil(2 * apart_s + self.margin_s)
        return None if needed > max(self.most_s, asked_s) else max(int(asked_s), needed)

    def length(self, rank: int, job_id: int) -> int:
        """Seconds from now; spread over the last 5 % by job id, so that equal ranks don't end together."""
        full = min(float(self.most_s), self.least_s + self.per_rank_s * rank)
        return int(full * (1.0 - 0.05 * (job_id * 2654435761 % 1024) / 1024))


def lease_end(job: Job, written: int | None) -> int | None:
    """When the lease of a waiting job ends, as far as it can be known.

    Slurm shows the begin time as the eligible time. A job whose dependency is unmet has none; there we go by what we
    last wrote, or by the mark that lua left.
    """
    if job.lease is None:
        return None
    if job.eligible is not None:
        return job.eligible
    return max(written or 0, job.lease.end)


def renewals(
    waiting: Iterable[tuple[int, Job]],
    written: Mapping[JobRef, int],
    rules: LeaseRules,
    now: float,
    slack_s: float,
    rate: float = math.inf,
    at_once: float = math.inf,
) -> list[Renew]:
    """Edits for the leases that end within `slack_s`, the soonest first. `waiting`: (rank, job) that stay leased.

    Where many end together (hundreds of jobs were submitted at once), some are renewed sooner: so many that `rate`
    edits a second are enough for each of the rest to be in time. Where no more than `at_once` can be written now, and
    that is not enough, those that can't be in time come last, and are of the head of the queue: Slurm goes on there in
    its own order. Were they of its end, they would overtake those ahead of them that are leased.
    """
    leased = [(rank, job) for rank, job in waiting if not _keeps_its_own(job, now + slack_s)]
    ends = [(end, rank, job) for rank, job in leased if (end := lease_end(job, written.get(job.key))) is not None]
    ends.sort(key=lambda entry: entry[0])
    late_s = [entry[0] - now - slack_s for entry in ends]
    chosen = list(range(_needed(late_s, rate)))
    if len(chosen) > at_once:
        kept = last_in_order([rank for _, rank, _ in ends], late_s, rate, at_once)
        first = dict.fromkeys(kept[: _needed([late_s[place] for place in kept], rate)])
        chosen = [*first, *(place for place in chosen if place not in first)]
    due = (ends[place] for place in chosen)
    return [Renew(job.id, until=_end(rank, job, rules, now, slack_s), seen=job) for _, rank, job in due]


def _needed(late_s: Sequence[float], rate: float) -> int:
    """How many are to be renewed now: those that are due, and so many that the rest can follow at that rate."""
    due = sum(late <= 0 for late in late_s)
    ahead = (k - rate * late for k, late in enumerate(late_s[due:], due + 1))
    return math.ceil(max(due, *ahead, 0))


def last_in_order(ranks: Sequence[int], late_s: Sequence[float], rate: float, at_once: float) -> list[int]:
    """As many as can be renewed in time, of the last in the order: places in `late_s`, which is sorted."""
    kept: list[tuple[int, int]] = []
    for place, (rank, late) in enumerate(zip(ranks, late_s, strict=True)):
        heapq.heappush(kept, (rank, place))
        if len(kept) > at_once + rate * max(0.0, late):
            heapq.heappop(kept)
    return sorted(place for _, place in kept)


def _keeps_its_own(job: Job, soon: float) -> bool:
    """Its begin time is its user's, and is not about to come: nothing is written over it."""
    return job.lease is None or job.lease.moved or job.own_begin(soon) is not None


def lease_again(job: Job, rank: int, rules: LeaseRules, now: float, slack_s: float) -> LeaseAgain:
    """For a job whose lease ran out."""
    return LeaseAgain(job.id, until=_end(rank, job, rules, now, slack_s), seen=job)


def _end(rank: int, job: Job, rules: LeaseRules, now: float, slack_s: float) -> int:
    """Never before the user's own begin time."""
    end = int(now) + min(rules.most_s, max(rules.length(rank, job.id), int(2 * slack_s)))
    return max(end, (job.lease.not_before or 0) if job.lease else 0)
