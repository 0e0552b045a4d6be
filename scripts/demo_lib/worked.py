"""What a job that saves did in all its runs. In: palwork's log. Out: runs, steps twice, steps lost, dead time.

palwork's copies do not wait for each other: one on quicker GPUs is ahead, and goes on where the whole job was saved.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Worked:
    runs: int
    twice: int  # steps done again, as they came after the last save
    lost: int  # steps that had been saved and were done again, or were never done: there must be none
    dead_s: float  # from a run's last step to the next one's first, its save and its load among them
    ran_s: float  # at work, steps that were done twice among them
    true_s: float  # the same, as its GPUs' true speeds have it


@dataclass(frozen=True)
class _Run:
    """One run of all copies together: a step is done when the last of them has done it, saved when all have."""

    ready: float
    begun: int  # the step that it goes on behind
    done: list[tuple[int, float]]  # steps, and when
    saved: int
    step_s: float  # as its GPUs' true speeds have it


def worked(path: Path, steps: int) -> Worked | None:
    if not path.exists():
        return None
    runs: dict[int, dict[int, list[dict[str, Any]]]] = {}  # by run and copy
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        runs.setdefault(line["run"], {}).setdefault(line["copy"], []).append(line)
    copies = max(map(len, runs.values()))
    twice = lost = saved = reached = 0
    dead = ran = true = 0.0
    last: float | None = None  # when the last step was done
    for number in sorted(runs):
        run = _run(list(runs[number].values()), copies)
        if run is None:  # it was stopped again before it had loaded
            continue
        lost += max(0, saved - run.begun)
        twice += max(0, reached - max(run.begun, saved))
        lost += sum(
            after != before + 1
            for before, (after, _) in zip([run.begun, *(n for n, _ in run.done)], run.done, strict=False)
        )
        saved = max(saved, run.saved)
        if run.done:
            ran += run.done[-1][1] - run.ready
            true += len(run.done) * run.step_s
            dead += run.done[0][1] - last if last is not None else 0.0
            reached, last = run.done[-1]
    return Worked(len(runs), twice, lost + max(0, steps - reached), dead, ran, true)


def _run(each: list[list[dict[str, Any]]], copies: int) -> _Run | None:
    """`each`: the lines of each copy."""
    ready = [line for lines in each for line in lines if line["what"] in ("resumed", "began")]
    if len(ready) < copies:
        return None
    begun = min(line["step"] for line in ready)
    at = [{line["step"]: line["at"] for line in lines if line["what"] == "step"} for lines in each]
    by_all = sorted(set.intersection(*map(set, at)))
    saves = [max((line["step"] for line in lines if line["what"] == "saved"), default=begun) for lines in each]
    return _Run(
        max(line["at"] for line in ready),
        begun,
        [(number, max(of_copy[number] for of_copy in at)) for number in by_all],
        min(saves),
        max(lines[0]["true_step_time"] for lines in each),
    )
