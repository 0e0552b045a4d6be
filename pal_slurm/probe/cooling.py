"""The cool-down rule. In: a thermometer. Out: when a GPU is cool enough to be timed.

Runs that start hot are slow for the runs before them. A GPU waits until it is at most `below_c`, or until it does not
get cooler any more (a warm room is no reason to wait), at most `longest_s`. One without a thermometer does not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pal_slurm.probe.clock import Clock


@dataclass(frozen=True, slots=True)
class CoolDown:
    below_c: float = 50.0
    longest_s: float = 60.0
    settled_c: float = 1.0  # cooler by less than this within `settled_s`: it won't get cooler
    settled_s: float = 10.0


def cool_down(temperature: Callable[[], float | None], rule: CoolDown, clock: Clock) -> float:
    """Seconds waited."""
    begun = clock.monotonic()
    coolest, since = temperature(), begun
    while (now_c := temperature()) is not None and now_c > rule.below_c:
        now = clock.monotonic()
        if coolest is None or now_c <= coolest - rule.settled_c:
            coolest, since = now_c, now
        if now - begun >= rule.longest_s or now - since >= rule.settled_s:
            break
        clock.sleep(0.5)
    return clock.monotonic() - begun
