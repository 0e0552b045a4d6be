"""How often one user may ask. In: whose question, when, what it cost. Out: whether it is answered. For any thread."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

MOST_KNOWN = 10_000  # users; beyond, who has asked least of late is forgotten
BURST = 20
CHEAP_S = 0.02  # of processor time: a question that costs more counts as several
TOO_OFTEN = "you ask more often than pald answers one user; try again in a minute"


@dataclass
class AskPace:
    per_minute: int
    _tokens: dict[Hashable, tuple[float, float]] = field(default_factory=dict)  # user: how many are left, since when
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def may(self, user: Hashable, now: float) -> bool:
        with self._lock:
            left, since = self._tokens.pop(user, (float(BURST), now))
            left = min(float(BURST), left + (now - since) * self.per_minute / 60.0)
            # Last in order: the first asked longest ago
            self._tokens[user] = (left - 1.0 if left >= 1.0 else left, now)
            if len(self._tokens) > MOST_KNOWN:
                del self._tokens[next(iter(self._tokens))]
        return left >= 1.0

    def cost(self, user: Hashable, seconds: float) -> None:
        """What the answer took; a minute makes up for it."""
        with self._lock:
            left, since = self._tokens.get(user, (float(BURST), 0.0))
            self._tokens[user] = max(left - max(0.0, seconds / CHEAP_S - 1.0), 1.0 - self.per_minute), since
