"""What palwork wrote into its --log. In: the file. Out: the steps of each run, where it resumed, and dead times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]  # at, job, run, copy, what, step, and what that kind of line tells besides


class WorkLog:
    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, what: str | None = None, run: int | None = None, copy: int | None = 0) -> list[Line]:
        """`run`: the job's restarts before it. `copy`: None for all."""
        text = self.path.read_text() if self.path.exists() else ""
        told: list[Line] = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        wanted = {"what": what, "run": run, "copy": copy}
        return [line for line in told if all(value in (None, line[key]) for key, value in wanted.items())]

    def steps(self, run: int | None = None, copy: int | None = 0) -> list[int]:
        return [line["step"] for line in self.lines("step", run, copy)]

    def resumed(self, run: int, copy: int | None = 0) -> list[int]:
        """The saved step at which that run went on, of each copy; empty while it loads, or where it began at zero."""
        return [line["step"] for line in self.lines("resumed", run, copy)]

    def dead_times(self, copy: int = 0) -> list[float]:
        """From the last step of a run to the first of the next, that one's own time included, save and load not."""
        lines = self.lines(copy=copy)
        found = []
        for start in [i for i, line in enumerate(lines) if line["what"] == "start"][1:]:
            before, after = lines[:start], lines[start:]
            first = next((line for line in after if line["what"] == "step"), None)
            if first is not None:
                last = max(i for i, line in enumerate(before) if line["what"] == "step")
                spent = _between(before[last:], "saving", "saved") + _between(after, "start", "resumed")
                found.append(first["at"] - before[last]["at"] - spent)
        return found


def _between(lines: list[Line], opens: str, closes: str) -> float:
    """Of the first pair: in a run's start its load, after its last step its save."""
    begun = next((line["at"] for line in lines if line["what"] == opens), None)
    ended = next((line["at"] for line in lines if line["what"] == closes), None)
    return ended - begun if begun is not None and ended is not None and ended > begun else 0.0
