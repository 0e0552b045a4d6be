"""What two jobs on the same GPU cost each other, as plans count it. In: pal.yaml, what jobs showed. Out: PairsSeen.

What is told stands. Else a user's own jobs count for his own; of others' only what `USERS` or more agree on, so that
nobody's step times make another's pairs (P12). What nobody measured is estimated where pal.yaml says so, from what is
told and agreed alone. A doubt makes a pair as slow as it may be. A pair that is to be measured is taken for a fair one
until the user's jobs, or several others', have shown what it costs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import exp, sqrt
from statistics import median
from typing import NamedTuple

from pal_slurm.model import JobKind, Sharers
from pal_slurm.model.likely import likely
from pal_slurm.store import UserPair

USERS = 3
PAIR_VAR = 0.05**2  # between two jobs of one user, beyond what their own doubt says
LIKELY = 0.2  # how far off an estimate is (docs/decisions/0022-sharing.md)
SURE = 0.25  # a pair in more doubt is for jobs that can be parted again
UNMEASURED = 1.5  # on the step times of both, of a pair that is to be measured: two do a third more than one


class PairTrust(NamedTuple):
    """A factor on the step time, how far off it may be as a share, and who says so."""

    factor: float
    doubt: float
    source: str  # told, own, users, measure, likely


Told = Mapping[Sharers, float | None]  # None: to be measured
Said = Mapping[Sharers, Mapping[str, tuple[float, float]]]  # by pair, by user: (mean, variance) of the log
NOTHING_SAID: Said = {}
NOTHING_LIKELY: Mapping[Sharers, float] = {}


class PairsSeen:
    """For all users."""

    def __init__(
        self,
        told: Told,
        said: Said = NOTHING_SAID,
        guessed: Mapping[Sharers, float] = NOTHING_LIKELY,
    ) -> None:
        self.told, self._said, self._of = told, said, dict[str, PairsOfOne]()
        factors = _factors(told)
        self._told = {pair: PairTrust(factor, 0.0, "told") for pair, factor in factors.items()}
        self._measure = told.keys() - factors.keys()
        self._unknown = {
            pair: PairTrust(max(factor, 1.0), LIKELY, "likely") for pair, factor in guessed.items() if pair not in told
        } | {pair: PairTrust(UNMEASURED, 0.0, "measure") for pair in self._measure}
        self._misfits = {kind for pair, factor in factors.items() if math.isinf(factor) for kind in pair[:2]}

    def of(self, user: str) -> PairsOfOne:
        if user not in self._of:
            self._of[user] = PairsOfOne(self._known(user), self._misfits)
        return self._of[user]

    def _known(self, user: str) -> dict[Sharers, PairTrust]:
        found = dict(self._unknown)
        for pair, users in self._said.items():
            if user and user in users:
                mean, var = users[user]
                trust: PairTrust | None = _trust(mean, var + PAIR_VAR, "own")
            else:
                trust = _agreed(who for name, who in users.items() if name)
            if trust is not None and (trust.doubt <= SURE or pair not in self._measure):  # else it is tried once more
                found[pair] = trust
        return found | self._told


class PairsOfOne:
    """As they count for the jobs of one user."""

    def __init__(self, known: Mapping[Sharers, PairTrust], misfits: Collection[JobKind]) -> None:
        self.known, self._misfits = known, misfits
        self._partners: dict[tuple[JobKind, str], list[JobKind]] = defaultdict(list)
        for pair in known:
            self._partners[pair.one, pair.model].append(pair.other)

    def factor(self, one: JobKind, other: JobKind, model: str) -> float:
        known = self.known.get(Sharers(one, other, model))
        return math.inf if known is None else known.factor * (1.0 + known.doubt)

    def sure(self, one: JobKind, other: JobKind, model: str) -> bool:
        """Both directions; an estimate only of applications that fit beside all that they are known beside."""
        both = (self.known.get(Sharers(one, other, model)), self.known.get(Sharers(other, one, model)))
        if any(known is None or known.doubt > SURE for known in both):
            return False
        guessed = any(known is not None and known.source == "likely" for known in both)
        return not (guessed and {one, other} & set(self._misfits))

    def unmeasured(self, one: JobKind, other: JobKind, model: str) -> bool:
        both = (self.known.get(Sharers(one, other, model)), self.known.get(Sharers(other, one, model)))
        return any(known is not None and known.source == "measure" for known in both)

    def partners(self, one: JobKind, model: str) -> Collection[JobKind]:
        return self._partners.get((one, model), ())


def _factors(told: Told) -> dict[Sharers, float]:
    return {pair: factor for pair, factor in told.items() if factor is not None}


def _trust(mean: float, var: float, source: str) -> PairTrust:
    return PairTrust(exp(max(mean, 0.0)), exp(sqrt(var)) - 1.0, source)


def _agreed(users: Iterable[tuple[float, float]]) -> PairTrust | None:
    """The median of enough users, one vote each, as sure as they agree."""
    said = list(users)
    if len(said) < USERS:
        return None
    middle = median(mean for mean, _ in said)
    spread = 1.5 * median(abs(mean - middle) for mean, _ in said)
    return _trust(middle, median(var for _, var in said) + PAIR_VAR + spread**2, "users")


def said_by(rows: Iterable[UserPair], names: Mapping[str, str]) -> Said:
    """`names`: of cards, to what the site calls their models. Cards of one model count together."""
    found: dict[Sharers, dict[str, tuple[float, float]]] = defaultdict(dict)
    for row in rows:
        pair = Sharers(JobKind(row.app, row.gpus), JobKind(row.beside, row.gpus), names.get(row.model, row.model))
        mean, var = row.mean, row.var
        if row.user in found[pair]:
            before = found[pair][row.user]
            a, b = 1.0 / before[1], 1.0 / var
            mean, var = (a * before[0] + b * mean) / (a + b), 1.0 / (a + b)
        found[pair][row.user] = (mean, var)
    return found


def estimated(told: Told, said: Said, models: Sequence[str]) -> dict[Sharers, float]:
    """Of what is told, and of what several users agree on: no one user's word reaches another's pairs."""
    return likely(dict(_common(_factors(told), said)), models)


def _common(told: Mapping[Sharers, float], said: Said) -> Iterator[tuple[Sharers, float]]:
    for pair, users in said.items():
        if pair not in told and (agreed := _agreed(who for name, who in users.items() if name)) is not None:
            yield pair, agreed.factor
    yield from told.items()
