"""How fast each application is on each model, as far as it has been seen. In: step times of jobs. Out: rates, doubt.

Known step times of the application itself come first. Where it has not run: the step times that it has, times what the
model is to others, the median ratio between two models over all applications that ran on both. Where nothing has been
seen all models count alike. Few observations are shrunk towards what the next source says.

Whose word counts: a user's own observations, for his own jobs. Those of others only as the median of several users, so
that nobody makes another's rates wrong by telling nonsense.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

USERS = 3  # so many must have said it before it counts for somebody else
OWN_DOUBT = 0.05  # of one observation, as a logarithm
FLEET_DOUBT = 0.8  # of a ratio between models that others have shown
NO_DOUBT_KNOWN = 1.0  # of nothing at all
SHOWN_S = 300.0  # a job that has run for so long has got over its start; as long again shows how fast it is
ABSURD = 1e6  # seconds a step, or steps a second: nobody measured that

AppKey = tuple[str, int]  # name, GPUs


class Rate(NamedTuple):
    """One over seconds a step, relative to the application's best model; how far off that may be, as a logarithm."""

    value: float
    doubt: float
    source: str  # app, fleet, none

    @property
    def hoped(self) -> float:
        """What to plan with: a model that nobody has tried is given the doubt's benefit, or it is never tried."""
        return self.value if self.source == "app" else min(1.0, self.value * math.exp(self.doubt))


class RateBook:
    """All that was seen."""

    def __init__(self, models: Sequence[str]) -> None:
        self._models = tuple(models)
        # app -> model -> user -> (sum of logarithms, how many)
        self._seen: dict[AppKey, dict[int, dict[str, tuple[float, int]]]] = defaultdict(dict)
        self._fleet: tuple[int, tuple[float, ...]] | None = None
        self.version = 0  # grows when rates may have changed

    def saw(self, app: AppKey, model: int, user: str, step_s: float) -> None:
        """A step there took so long; what can't be is not believed."""
        if not 1 / ABSURD < step_s < ABSURD:
            return
        users = self._seen[app].setdefault(model, {})
        total, count = users.get(user, (0.0, 0))
        users[user] = (total + math.log(step_s), count + 1)
        if count == 0:
            self.version += 1
            self._fleet = None

    def rates(self, app: AppKey, user: str) -> tuple[Rate, ...]:
        """By model."""
        own = {m: self._said(users, user) for m, users in self._seen.get(app, {}).items()}
        known = {m: said for m, said in own.items() if said is not None}
        fleet = self._ratios()
        logs, doubts, sources = [], [], []
        for m in range(len(self._models)):
            guesses = [step + fleet[m] - fleet[k] for k, (step, _) in known.items() if k != m]
            guess = sum(guesses) / len(guesses) if guesses else (fleet[m] if not known else None)
            if m in known:
                step, count = known[m]
                trust = FLEET_DOUBT**2 / (FLEET_DOUBT**2 + OWN_DOUBT**2 / count)
                logs.append(step if guess is None else trust * step + (1 - trust) * guess)
                doubts.append(OWN_DOUBT / math.sqrt(count))
                sources.append("app")
            else:
                logs.append(0.0 if guess is None else guess)
                doubts.append(FLEET_DOUBT if any(fleet) else NO_DOUBT_KNOWN)
                sources.append("fleet" if any(fleet) else "none")
        best = min(logs)
        return tuple(Rate(math.exp(best - s), d, w) for s, d, w in zip(logs, doubts, sources, strict=True))

    def _said(self, users: dict[str, tuple[float, int]], user: str) -> tuple[float, int] | None:
        """Logarithm of the step time for that user's jobs, and how often it was seen."""
        if user in users:
            total, count = users[user]
            return total / count, count
        if len(users) < USERS:
            return None
        return median(total / count for total, count in users.values()), len(users)

    def _ratios(self) -> tuple[float, ...]:
        """Logarithm of each model's step time over the first's: medians, by way of models that link them."""
        if self._fleet is not None and self._fleet[0] == self.version:
            return self._fleet[1]
        n = len(self._models)
        apart: dict[tuple[int, int], list[float]] = defaultdict(list)
        for models in self._seen.values():
            mean = {m: median(total / count for total, count in users.values()) for m, users in models.items()}
            for a in mean:
                for b in mean:
                    if a != b:
                        apart[a, b].append(mean[b] - mean[a])
        ratio = {0: 0.0}
        for _ in range(n):
            for (a, b), found in apart.items():
                if a in ratio and b not in ratio:
                    ratio[b] = ratio[a] + median(found)
        fleet = tuple(ratio.get(m, 0.0) for m in range(n))
        self._fleet = (self.version, fleet)
        return fleet
