"""What came of a line with pald beside it, held against what came of it without. Out: verdicts; what differs, twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar


@dataclass(frozen=True)
class Verdict:
    release: str
    backend: str
    line: str
    placed: str  # how pald placed it
    differs: tuple[str, ...]  # beyond its exception
    exception: str  # that was seen
    got: str  # in a few words
    waited: tuple[float, float]  # seconds: without pald, with
    again: bool = field(default=False, kw_only=True)  # it differed once, and was run once more

    @property
    def what(self) -> str:
        """Which line, told apart from all others."""
        return self.line

    @property
    def arm(self) -> tuple[str, str]:
        return (self.release, self.backend)

    @property
    def word(self) -> str:
        return "different" if self.differs else self.exception or "equal"


V = TypeVar("V", bound=Verdict)
T = TypeVar("T")


def twice(
    lines: Sequence[T], what: Callable[[T], str], run: Callable[[Sequence[T], Path], Iterable[V]], home: Path
) -> list[V]:
    """What differs is run once more: a fault of pald's does so again, what a busy machine made late does not."""
    (home / "once").mkdir()
    (home / "again").mkdir()
    verdicts = list(run(lines, home / "once"))
    for verdict in verdicts:
        if verdict.differs:
            print(f"run once more: {verdict.backend}: {verdict.what}: {verdict.differs}", file=sys.stderr)
    wrong = {verdict.what for verdict in verdicts if verdict.differs}
    rest = [line for line in lines if what(line) in wrong]
    second = {(v.what, v.backend): v for v in run(rest, home / "again")} if rest else {}
    return [replace(second.get((v.what, v.backend), v), again=v.what in wrong) for v in verdicts]
