"""What a job that saves did in all its runs. In: palwork's log. Out: runs, steps twice, steps lost, dead time."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
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


def worked(path: Path, steps: int) -> Worked | None:
    if not path.exists():
        return None
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    copies = sorted({line["copy"] for line in lines})
    each = [_of_copy([line for line in lines if line["copy"] == copy], steps) for copy in copies]
    slowest = max(each, key=lambda one: one.ran_s)
    return replace(slowest, twice=sum(one.twice for one in each), lost=sum(one.lost for one in each))


def _of_copy(lines: list[dict[str, Any]], steps: int) -> Worked:
    starts = [i for i, line in enumerate(lines) if line["what"] == "start"]
    runs = [lines[begin:end] for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    twice = lost = saved = 0
    dead = ran = true = 0.0
    last: dict[str, Any] | None = None  # step so far
    for run in runs:
        ready = next((line for line in run if line["what"] in ("resumed", "began")), None)
        if ready is None:  # it was stopped again before it had loaded
            continue
        begun, done = ready["step"], [line for line in run if line["what"] == "step"]
        ran += done[-1]["at"] - ready["at"] if done else 0.0
        true += len(done) * run[0]["true_step_time"]
        lost += max(0, saved - begun)
        if last is not None:
            twice += max(0, last["step"] - max(begun, saved))
            dead += done[0]["at"] - last["at"] if done else 0.0
        lost += sum(b["step"] != a["step"] + 1 for a, b in zip([{"step": begun}, *done], done, strict=False))
        saved = max([saved, *(line["step"] for line in run if line["what"] == "saved")])
        last = done[-1] if done else last
    reached = last["step"] if last is not None else 0
    return Worked(len(runs), twice, lost + max(0, steps - reached), dead, ran, true)
