"""The time of the night. In: `01:00-05:00` and the local clock. Out: when it opened and when it closes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from pal_slurm.errors import BadInput

_TEXT = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])-([01]?[0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True)
class Window:
    """Epoch seconds. One that closes before it opens goes past midnight."""

    opened: float
    closes: float


@dataclass(frozen=True, slots=True)
class Hours:
    """Local times of day."""

    first: time
    last: time

    def around(self, now: float) -> Window | None:
        """The window that is open now; None: it is closed."""
        today = datetime.fromtimestamp(now)
        for days in (0, -1):  # one that opened yesterday evening may still be open
            opens = datetime.combine(today.date() + timedelta(days=days), self.first)
            closes = datetime.combine(opens.date() + timedelta(days=self.last <= self.first), self.last)
            if opens.timestamp() <= now < closes.timestamp():
                return Window(opens.timestamp(), closes.timestamp())
        return None


def hours(text: str) -> Hours:
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"--window {text!r}: write it as 01:00-05:00, in local time")
    a, b, c, d = map(int, match.groups())
    if (a, b) == (c, d):
        raise BadInput(f"--window {text!r} opens when it closes; leave it out to run at any time")
    return Hours(time(a, b), time(c, d))
