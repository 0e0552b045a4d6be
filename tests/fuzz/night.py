"""Many worlds in a row, for hours. In: seeds. Out: a progress line; a directory with a report and each failing script.

All that was found is on disk as soon as it is found: a script as it was drawn, and once it is shrunk the short one in
its place. So neither Ctrl-C nor SIGKILL loses anything, and the next night goes on where this one ended.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.draw import draw
from tests.fuzz.judge import Verdict
from tests.fuzz.script import Script
from tests.fuzz.shrink import shrink
from tests.fuzz.trial import Court

REPORT = "report.json"
REPORT_S = 5.0  # it is written at least so often, and whenever a world fails
LINE_S = 1.0
MOST_SCRIPTS = 20  # of one rule


@dataclass
class Report:
    first: int
    next: int  # the seed of the world after the last one
    worlds: int = 0
    cpu_s: float = 0.0
    failed: dict[str, list[int]] = field(default_factory=dict)  # rule -> seeds

    def __str__(self) -> str:
        bad = sum(map(len, self.failed.values()))
        each = self.cpu_s / max(self.worlds, 1)
        lines = [f"{self.worlds} worlds from seed {self.first}: {bad} failed; {each:.3f} CPU-s each"]
        return "\n".join([*lines, *(f"  {rule}: {_seeds(seeds)}" for rule, seeds in sorted(self.failed.items()))])


def _seeds(seeds: list[int]) -> str:
    more = f" and {len(seeds) - 10} more" if len(seeds) > 10 else ""
    return f"{len(seeds)}, of seed {', '.join(map(str, seeds[:10]))}{more}"


def last(into: Path) -> Report | None:
    """Of an earlier night."""
    path = into / REPORT
    return Report(**json.loads(path.read_text())) if path.exists() else None


class Night:
    def __init__(
        self, at: Court, into: Path, first: int | None, *, keeps: bool = True, drawn: Callable[[int], Script] = draw
    ) -> None:
        """`first`: None goes on with the report that is there. `keeps`: a report; failing scripts are kept anyway."""
        self._at, self._into, self._keeps, self._drawn = at, into, keeps, drawn
        self.report = (last(into) if first is None else None) or Report(first or 0, first or 0)
        self._cpu, self._written, self._told = time.process_time(), time.monotonic(), 0.0

    def run(self, more: Callable[[], bool]) -> None:
        """`more`: whether another one is to be lived."""
        while more():
            seed = self.report.next
            verdicts = self._at.tried(self._drawn(seed))
            self.report.next, self.report.worlds = seed + 1, self.report.worlds + 1
            if verdicts:
                self._failed(seed, verdicts[0])
            elif time.monotonic() - self._written > REPORT_S:
                self._write()
            self._tell()

    def end(self) -> Report:
        self._write()
        return self.report

    def _failed(self, seed: int, verdict: Verdict) -> None:
        seeds = self.report.failed.setdefault(verdict.rule, [])
        seeds.append(seed)
        print(f"\nseed {seed}: {verdict}", flush=True)
        if len(seeds) > MOST_SCRIPTS:
            self._write()
            return
        path = self._into / f"{verdict.rule}-{seed}.txt"
        _put(path, f"# {verdict}\n{self._drawn(seed)}")
        self._write()
        if len(seeds) == 1:
            short = shortest(self._at, self._drawn(seed), verdict.rule)
            _put(path, f"# {verdict}\n{short}")
            print(f"shrunk to {path}:\n{short}", end="", flush=True)
        else:
            print(f"kept as {path}", flush=True)

    def _write(self) -> None:
        now = time.process_time()
        self.report.cpu_s, self._cpu, self._written = self.report.cpu_s + now - self._cpu, now, time.monotonic()
        if self._keeps:
            _put(self._into / REPORT, json.dumps(asdict(self.report)))

    def _tell(self) -> None:
        live = sys.stderr.isatty()
        if time.monotonic() - self._told < LINE_S if live else self.report.worlds % 100:
            return
        self._told = time.monotonic()
        each = (self.report.cpu_s + time.process_time() - self._cpu) / self.report.worlds
        bad = sum(map(len, self.report.failed.values()))
        said = f"{self.report.worlds} worlds, {each * 1000:.0f} ms of CPU each, {bad} failed"
        print(said, end="\r" if live else "\n", file=sys.stderr, flush=True)


def _put(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)


def shortest(at: Court, script: Script, rule: str) -> Script:
    return shrink(script, lambda candidate: any(v.rule == rule for v in at.tried(candidate)))
