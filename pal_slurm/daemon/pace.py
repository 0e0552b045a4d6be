"""How hard we may lean on slurmctld (P8). In: what calls cost. Out: when to look again, how much to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SLOWER = 3.0  # times what is usual
WELL_WITHIN = 0.5
AIM = 0.8  # of the share of slurmctld's time: what is aimed at whole is missed by half of all minutes


@dataclass
class WriteBudget:
    """A token bucket of edits: `rate` a second, at most `burst` at once, or what came together between two looks."""

    rate: float
    burst: float
    tokens: float = field(default=-1.0)
    at: float = 0.0
    apart_s: float = 0.0  # looks are

    def allowance(self, monotonic: float) -> int:
        """Edits that may be written now."""
        if self.tokens < 0:
            self.tokens, self.at = self.burst, monotonic
        most = max(self.burst, self.rate * self.apart_s)
        self.tokens = min(most, self.tokens + (monotonic - self.at) * self.rate)
        self.at = monotonic
        return int(self.tokens)

    def spare(self, monotonic: float) -> int:
        """What can wait may be written with this; half of a burst is kept for starts and undos."""
        return max(0, int(self.allowance(monotonic) - self.burst / 2))

    def spend(self, edits: int) -> None:
        self.tokens = max(0.0, self.tokens - edits)


@dataclass
class TimeShare:
    """A part of the time, for edits whose cost is learnt from how long they take.

    Their part of the two looks at their jobs included: more than slurmctld spends on them.
    """

    share: float = 0.05
    cost_s: float = 0.004  # of one edit, until it is known
    saved_s: float = -1.0  # time that may be taken now; not yet begun to save
    at: float = 0.0
    apart_s: float = 0.0  # looks are

    SAVES_S = 10.0  # what was not taken in this time, or between two looks, is gone

    def allowance(self, monotonic: float) -> int:
        """Edits that may be written now."""
        most = self.share * max(self.SAVES_S, self.apart_s)
        saved = most if self.saved_s < 0 else self.saved_s + (monotonic - self.at) * self.share
        self.saved_s, self.at = min(most, saved), monotonic
        return int(self.saved_s / self.cost_s)


@dataclass
class StartBudget(TimeShare):
    """What starting jobs may take of slurmctld's time: one edit ends a job's wait, so counting them would be a wait."""

    def spend(self, starts: int, written: int, wall_s: float) -> None:
        """So many of the edits that were written in this time were starts on this account."""
        if written:
            each = wall_s / written
            self.cost_s = max(1e-4, 0.7 * self.cost_s + 0.3 * each)
            self.saved_s = max(0.0, self.saved_s - starts * each)


@dataclass
class KeepBudget(TimeShare):
    """What keeping leases may take, and how many go between two looks at their jobs.

    Slower at once, and faster step by step; at first as of a slurmctld in trouble.
    """

    share: float = 0.1
    cost_s: float = 0.25

    @property
    def rate(self) -> float:
        """Of those that may be kept, so many a second."""
        return self.share / self.cost_s

    def bulk(self, left_s: float, least: int, most: int) -> int:
        """So many as are written well within the time that is left, by the pace of the last ones."""
        return max(least, min(most, int(WELL_WITHIN * left_s / self.cost_s)))

    def took(self, written: int, wall_s: float) -> None:
        if written:
            each = max(1e-4, wall_s / written)
            self.cost_s = max(each, 0.3 * self.cost_s + 0.7 * each)

    def spend(self, kept: int) -> None:
        self.saved_s = max(0.0, self.saved_s - kept * self.cost_s)


PUT_OFF, START, KEEP, EDIT = 0, 1, 2, 3


def within(wanted: Sequence[int], allowances: Mapping[int, int]) -> list[int]:
    """On which account each edit is written, in order: on its own as long as it lasts, then on that of all edits."""
    left, chosen = dict(allowances), []
    for own in wanted:
        account = next((account for account in (own, EDIT) if left[account] > 0), PUT_OFF)
        if account != PUT_OFF:
            left[account] -= 1
        chosen.append(account)
    return chosen


@dataclass
class ReadPace:
    """Spaces snapshots so that answering them takes at most `share` of slurmctld's time, however far apart that is.

    The cost of one snapshot is learnt from sdiag's own count of time spent on our RPCs; until that is known, the
    wall time of the call stands in for it, which is an upper bound (it holds the client's start-up too). The mean is
    what is aimed at; a question that had to wait for a pass of Slurm's own costs many times that, and is paid back
    after it. Looks come apart step by step: a new job's lease lasts for two of them as they were (between.py).
    """

    share: float = 0.05
    slow_s: float = 1.0  # a snapshot that takes longer, and much longer than others did: slurmctld is in trouble
    cost_s: float | None = None
    usual_s: float = 0.0  # what a snapshot takes us here: seconds, where there are tens of thousands of jobs
    owed_s: float = 0.0  # of slurmctld's time, beyond what is aimed at of what has passed since
    at: float = 0.0
    spaced_s: float = 0.0
    backoff: int = 0

    MOST_BACKOFF_S = 60.0
    STEP, FIRST_STEP_S = 1.8, 5.0

    def took(self, wall_s: float, rpc_s: float | None, beside_s: float = 0.0, monotonic: float = 0.0) -> None:
        """One snapshot took this long; `rpc_s` is slurmctld's own count where it is known, since the last snapshot.

        `beside_s`: what the edits since then took, in which jobs are read again.
        """
        cost = wall_s if rpc_s is None else min(rpc_s, wall_s + beside_s)
        known = self.cost_s
        self.cost_s = cost if known is None else 0.7 * known + 0.3 * cost
        self.owed_s = max(0.0, self.owed_s - AIM * self.share * (monotonic - self.at)) + cost
        self.at = monotonic
        wanted = max(self.cost_s / AIM, self.owed_s) / self.share
        self.spaced_s = wanted if known is None else min(wanted, max(self.FIRST_STEP_S, self.STEP * self.spaced_s))
        slow = wall_s > max(self.slow_s, SLOWER * self.usual_s)
        self.backoff = min(self.backoff + 1, 6) if slow else max(0, self.backoff - 1)
        self.usual_s = 0.8 * self.usual_s + 0.2 * wall_s if self.usual_s else wall_s

    def failed(self) -> None:
        """slurmctld did not answer: wait longer each time."""
        self.backoff = min(self.backoff + 1, 6)

    def gap_s(self, least_s: float) -> float:
        """Seconds from the start of one snapshot to the start of the next."""
        backoff = min(self.MOST_BACKOFF_S, least_s * 2**self.backoff) if self.backoff else 0.0
        return float(max(least_s, self.spaced_s, backoff))
