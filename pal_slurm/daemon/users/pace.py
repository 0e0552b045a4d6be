"""How often one user may ask. In: whose question, when. Out: whether it is answered."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_KNOWN = 10_000  # users; beyond, who has asked least of late is forgotten
BURST = 20


@dataclass
class AskPace:
    per_minute: int
    _tokens: dict[int, tuple[float, float]] = field(default_factory=dict)  # user: how many are left, since when

    def may(self, user: int, now: float) -> bool:
        left, since = self._tokens.pop(user, (float(BURST), now))
        left = min(float(BURST), left + (now - since) * self.per_minute / 60.0)
        self._tokens[user] = (left - 1.0 if left >= 1.0 else left, now)  # last in order: the first asked longest ago
        if len(self._tokens) > MOST_KNOWN:
            del self._tokens[next(iter(self._tokens))]
        return left >= 1.0
