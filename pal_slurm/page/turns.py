"""Whose turn it is. In: who asks. Out: a turn at the threads, or none.

Who asks a lot waits behind himself: of one asker few are answered at a time, and half of those who wait may be his.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field


class Crowded(Exception):
    """503: too many wait already."""


@dataclass
class _Line:
    free: asyncio.Semaphore
    asking: int = 0


@dataclass
class Turns:
    at_once: int  # of one asker; there should be threads for more
    most: int  # who wait or are answered, of all together
    _lines: dict[Hashable, _Line] = field(default_factory=dict)  # of those who ask now
    _asking: int = 0

    @contextlib.asynccontextmanager
    async def of(self, who: Hashable) -> AsyncIterator[None]:
        line = self._lines.get(who) or _Line(asyncio.Semaphore(self.at_once))
        if line.asking >= half(self.most):
            raise Crowded("you ask more at a time than is answered to one; wait for the answers")
        if self._asking >= self.most:
            raise Crowded("too many ask at this moment")
        self._lines[who] = line
        line.asking, self._asking = line.asking + 1, self._asking + 1
        try:
            async with line.free:
                yield
        finally:
            line.asking, self._asking = line.asking - 1, self._asking - 1
            if not line.asking:
                del self._lines[who]


def half(most: int) -> int:
    """What one may have of what is there for all."""
    return max(1, most // 2)
