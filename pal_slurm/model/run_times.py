"""How long jobs run: the one estimate. In: jobs that have ended. Out: for any job the time that it will probably run.

A job is like those of its user, application and name; less is known of it from those of its user and application, from
those of its user, and from all. Each of these groups knows two things, how long its jobs run and which share of their
limit, and tells whichever spreads less. Few jobs tell little: a group of n jobs counts n to `WEIGHT` against the more
general one, and where nothing has ended the time is short, so that nobody waits for a gain that nobody has seen. A job
that did not run to its end (cancelled, failed, preempted, lost with its node) would have run for longer: it makes an
estimate longer, or teaches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from statistics import median, median_low
from typing import NamedTuple

from pal_slurm.model.job import Job

PRIOR_S = 60.0
PRIOR_DOUBT = 2.0
LIMIT_DOUBT = 1.0  # of the share of its limit that a job runs, where few have told
KNOWN = 1.8  # a smaller doubt is one that ended jobs have told
LEAST_DOUBT = 0.1
LEAST_S = 0.5  # Slurm tells whole seconds
WEIGHT = 3.0  # ended jobs that the more general estimate counts as
MOST = 200.0  # ended jobs that a group remembers
MOST_USERS = 20_000
MOST_KINDS = 1_000  # applications and names of one user; those that have not been seen for longest go first
MOST_MADE = 100_000  # estimates that are kept until the next job ends

Group = tuple[str, ...]


@lru_cache(maxsize=65_536)
def named(name: str) -> str:
    """What a job's name comes to: the same for repeated jobs, and as short for a long one."""
    return sha256(name.encode("utf-8", "replace")).hexdigest()[:16] if name else ""


class RunEstimate(NamedTuple):
    """A distribution: the logarithm of the time is normal."""

    seconds: float  # the median
    doubt: float  # the standard deviation of the logarithm

    @property
    def known(self) -> bool:
        """Jobs like it have ended: it is more than the prior."""
        return self.doubt < KNOWN

    @property
    def at_least(self) -> float:
        """It runs for longer with five chances of six."""
        return self.seconds * math.exp(-self.doubt)

    @property
    def at_most(self) -> float:
        """It runs for less with five chances of six."""
        return self.seconds * math.exp(self.doubt)

    @property
    def mean(self) -> float:
        return self.seconds * math.exp(self.doubt**2 / 2)

    def rest(self, ran_s: float) -> float:
        """What is left after it has run so long. One that has outrun its estimate, or has none: as long again."""
        left = self.seconds - ran_s
        return left if left > 0 and self.known else max(left, ran_s, LEAST_S)


@dataclass(slots=True)
class _Logs:
    """Mean and variance of logarithms; old ones fade."""

    n: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        if self.n >= MOST:
            self.squares *= (MOST - 1) / self.n
            self.n = MOST - 1
        self.n += 1
        off = value - self.mean
        self.mean += off / self.n
        self.squares += off * (value - self.mean)

    @property
    def variance(self) -> float:
        return self.squares / self.n if self.n else 0.0

    def doubtful(self, prior: float) -> float:
        """The same where few tell little: one value more, off by that much."""
        return (self.squares + prior**2) / (self.n + 1)


class _Told(NamedTuple):
    """What one group tells of the logarithm of the time."""

    part: float  # how far it is believed
    mean: float
    variance: float
    of_limit: bool  # the logarithm of the share of the limit


@dataclass(slots=True)
class _Ended:
    ran: _Logs = field(default_factory=_Logs)
    of_limit: _Logs = field(default_factory=_Logs)

    def tells(self, limited: bool) -> _Told:
        share = self.of_limit
        by_limit = limited and share.n > self.ran.n / 2
        if by_limit and share.doubtful(LIMIT_DOUBT) < self.ran.doubtful(PRIOR_DOUBT):
            return _Told(share.n / (share.n + WEIGHT), share.mean, share.variance, True)
        return _Told(self.ran.n / (self.ran.n + WEIGHT), self.ran.mean, self.ran.variance, False)


def _limit(told_s: float | None) -> float | None:
    """A limit that can be none tells nothing."""
    return told_s if told_s is not None and told_s > 0 else None


@dataclass(slots=True)
class _User:
    every: _Ended = field(default_factory=_Ended)
    kinds: dict[Group, _Ended] = field(default_factory=dict)  # (app,) and (app, name); what ended last stands last

    def group(self, group: Group) -> _Ended:
        """To be taught."""
        kind = self.kinds.pop(group, None) or _Ended()
        if len(self.kinds) >= MOST_KINDS:
            del self.kinds[next(iter(self.kinds))]
        self.kinds[group] = kind
        return kind


class RunTimes:
    """Of one cluster. A name is what `named` makes of it."""

    def __init__(self) -> None:
        self._users: dict[str, _User] = {}
        self._everybody: _Ended | None = None
        self._made: dict[tuple[Group, float | None], RunEstimate] = {}
        self._told: dict[tuple[str, str | None, str | None, bool], list[_Told]] = {}
        self.taught = 0  # jobs that have ended

    def ended(self, user: str, app: str, name: str, limit_s: float | None, ran_s: float, *, cut: bool = False) -> None:
        """A job ran for so long, or would have on the best GPUs.

        `cut`: it did not run to its end. It would have run for longer: it makes no estimate of jobs like it shorter.
        """
        ran_s = max(ran_s, LEAST_S)
        limit_s = _limit(limit_s)
        groups: tuple[tuple[str | None, str | None], ...] = ((None, None), (app, None), (app, name))
        was = [self._like(user, *group, limit_s).seconds if cut else 0.0 for group in groups]
        if all(ran_s <= seconds for seconds in was):
            return
        theirs = self._users.pop(user, None) or _User()
        if len(self._users) >= MOST_USERS:
            del self._users[next(iter(self._users))]
        self._users[user] = theirs
        of_name, of_app = theirs.group((app, name)), theirs.group((app,))
        taught = [kind for kind, seconds in zip((theirs.every, of_app, of_name), was, strict=True) if ran_s > seconds]
        before = [(kind, replace(kind.ran), replace(kind.of_limit)) for kind in taught] if cut else []
        for kind in taught:
            kind.ran.add(math.log(ran_s))
            if limit_s:
                kind.of_limit.add(math.log(min(ran_s / limit_s, 1.0)))
        self._everybody = None
        self._told.clear()
        if cut and self._like(user, app, name, limit_s).seconds < was[-1]:  # the other of the two now spreads less
            for kind, ran, of_limit in before:
                kind.ran, kind.of_limit = ran, of_limit
            self._everybody = None
            self._told.clear()
        self._made.clear()
        self.taught += 1

    def of(self, job: Job, app: str = "") -> RunEstimate:
        """`app`: where the job itself does not say it."""
        limit_s = None if job.time_limit_s is None else float(job.time_limit_s)
        return self.like(job.user, job.hint.app or app, named(job.name), limit_s)

    def like(self, user: str, app: str, name: str | None, limit_s: float | None) -> RunEstimate:
        """`name`: None: of whatever name."""
        limit_s = _limit(limit_s)
        key = ((user, app) if name is None else (user, app, name), limit_s)
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= MOST_MADE:
                self._made.clear()
                self._told.clear()
            made = self._made[key] = self._like(user, app, name, limit_s)
        return made

    def kinds(self, fewest: int, most_s: float) -> Iterator[tuple[str, str, float]]:
        """User, application and how many of its jobs are remembered, where so many have ended and most ran so long."""
        most = math.log(most_s)
        for user, theirs in list(self._users.items()):
            for group, kind in list(theirs.kinds.items()):
                if len(group) == 1 and kind.ran.n >= fewest and kind.ran.mean < most:
                    yield user, group[0], kind.ran.n

    def _like(self, user: str, app: str | None, name: str | None, limit_s: float | None) -> RunEstimate:
        key = (user, app, name, bool(limit_s))
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = [kind.tells(bool(limit_s)) for kind in self._groups(user, app, name)]
        mean, variance = math.log(PRIOR_S), PRIOR_DOUBT**2
        of_limit = math.log(limit_s) if limit_s else 0.0
        for part, theirs, spread, by_limit in told:
            theirs += of_limit if by_limit else 0.0
            variance = part * spread + (1 - part) * variance + part * (1 - part) * (theirs - mean) ** 2
            mean = part * theirs + (1 - part) * mean
        seconds = math.exp(mean)
        return RunEstimate(min(seconds, limit_s) if limit_s else seconds, max(math.sqrt(variance), LEAST_DOUBT))

    def _groups(self, user: str, app: str | None, name: str | None) -> Iterator[_Ended]:
        """From the most general to the job's own. None: of any."""
        everybody = self._everybody  # start forecasts are made in another thread
        if everybody is None:
            everybody = self._everybody = _votes(list(self._users.values()))
        yield everybody
        if (theirs := self._users.get(user)) is None:
            return
        yield theirs.every
        if app is None:
            return
        for group in ((app,), (app, name)) if name is not None else ((app,),):
            if (kind := theirs.kinds.get(group)) is None:
                return
            yield kind


def _votes(users: list[_User]) -> _Ended:
    """One user counts as one ended job, and few who differ from the others move nothing; the guess has a vote too."""
    return _Ended(
        _voted([u.every.ran for u in users], math.log(PRIOR_S)),
        _voted([u.every.of_limit for u in users if u.every.of_limit.n]),
    )


def _voted(votes: list[_Logs], *guess: float) -> _Logs:
    if not votes:
        return _Logs()
    mean = median_low([*(vote.mean for vote in votes), *guess])
    return _Logs(len(votes), mean, len(votes) * median([vote.variance + (vote.mean - mean) ** 2 for vote in votes]))
