"""slurmctld's "not now". In: updates and a way to send them. Out: those that it was not ready for are sent again.

It says so now and then to an update of a job's partition where there is no slurmdbd. An update sets values, so that the
same one twice is as good as once. A batch insists for a second at most: the next cycle is there for the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
NOT_NOW = "Resource temporarily unavailable"
PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4)


def insist(items: Sequence[T], send: Callable[[Sequence[T]], None], said: Callable[[T], str]) -> None:
    """Send all of them, and again those of which slurmctld said "not now"."""
    send(items)
    for pause in PAUSES_S:
        items = [item for item in items if NOT_NOW in said(item)]
        if not items:
            return
        time.sleep(pause)
        send(items)
