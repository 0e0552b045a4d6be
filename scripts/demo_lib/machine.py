"""How busy this machine was meanwhile. Out: a sentence by which to judge whether the figures are its doing."""

from __future__ import annotations

from pathlib import Path

MOST_LATE = 0.02  # more than that in the run times, and differences of some percent mean little


class Work:
    """From now on."""

    def __init__(self) -> None:
        self._begun = _ticks()

    def told(self, late: float) -> str:
        """`late`: how much longer than the GPUs' true speeds make of it the jobs ran, at worst."""
        total, idle = (now - then for now, then in zip(_ticks(), self._begun, strict=True))
        busy = 1 - idle / total if total else 0.0
        said = f"This machine's cores were {busy:.0%} busy; jobs ran {late:.1%} longer than their GPUs' true speeds say"
        if late > MOST_LATE:
            return f"{said}: too busy to believe differences of that size. Try again, or --in-turn."
        return f"{said}, at most."


def _ticks() -> tuple[int, int]:
    """All and idle time of all cores since boot."""
    counts = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(counts), counts[3] + counts[4]
