"""What all trace readers share: rows with line numbers, and errors that name line and field. In: a file. Out: rows.

Rows are read one at a time and their number is bounded, so no file is too big to be refused politely. A last line that
was torn off (no newline at its end, and it does not parse) is counted and left out; every other bad line is an error,
but in accounting, whose odd rows are counted and noted: a file that has nothing else is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, TypeVar

from pal_slurm.errors import BadInput
from pal_slurm.model import App
from pal_slurm.sim.workload import Workload

T = TypeVar("T")

MOST_NOTES = 10
MOST_NUMBER = 1e15
MOST_WHOLE = 2.0**53  # beyond it numbers of a table are not exact
MOST_S, LEAST_RUN_S = 1e10, 1e-3  # three hundred years; times near it still tell microseconds apart
MAX_LINE = 1_000_000
MAX_JOBS = 1_000_000  # some 300 MB of Work


@dataclass(frozen=True, slots=True)
class Options:
    """What a trace does not say, and every reader needs."""

    locality: float = 1.7  # factor on a job that spans nodes
    default_class: str = "A"  # of a job whose application nobody knows
    limit_factor: float | None = None  # time limit = factor x ideal run time, where the trace has none
    throughputs: Path | None = None  # gavel: simulation_throughputs.json

    @property
    def comm(self) -> tuple[float, float, float, float]:
        return (1.0, 1.0, self.locality, self.locality)


class Format(Protocol):
    """One trace format."""

    def sniff(self, header: str) -> bool: ...
    def read(self, table: Table, options: Options) -> Workload: ...


FORMATS: dict[str, Format] = {}


def register(name: str, fmt: Format) -> None:
    FORMATS[name] = fmt


class Row:
    """One line: its fields by column, converted with errors that say where."""

    __slots__ = ("_at", "_table", "fields", "line", "torn")

    def __init__(self, table: Table, line: int, fields: list[str], at: dict[str, int], *, torn: bool = False) -> None:
        """`torn`: no newline ends it."""
        self._table, self.line, self.fields, self._at, self.torn = table, line, fields, at, torn

    def text(self, column: str) -> str:
        at = self._at[column]
        if at >= len(self.fields):
            raise self.error(column, f"the line has only {len(self.fields)} fields")
        return self.fields[at].strip()

    def full(self, hint: str) -> None:
        """An error where it has more fields than the header: then none of them can be trusted."""
        if len(self.fields) > max(self._at.values()) + 1:
            last = max(self._at, key=lambda name: self._at[name])
            columns = self._at[last] + 1
            raise self.error(last, f"the line has {len(self.fields)} fields, the header {columns}; {hint}")

    def has(self, column: str) -> bool:
        return column in self._at

    def number(
        self, column: str, *, least: float = 0.0, above: float | None = None, most: float = MOST_NUMBER
    ) -> float:
        raw = self.text(column)
        try:
            value = float(raw if raw.isascii() and "_" not in raw else "")
        except ValueError:
            raise self.error(column, f"{raw[:40]!r} is not a number") from None
        if not math.isfinite(value):
            raise self.error(column, f"{raw[:40]!r} is not a finite number")
        if above is not None and value <= above:
            raise self.error(column, f"{raw[:40]} must be more than {above:g}")
        if above is None and value < least:
            raise self.error(column, f"{raw[:40]} must be at least {least:g}")
        if value > most:
            raise self.error(column, f"{raw[:40]} must be at most {most:,.0f}")
        return value

    def moment(self, column: str) -> float:
        """Seconds since some beginning."""
        return self.number(column, most=MOST_S)

    def ran(self, column: str, seconds: float) -> float:
        """A run time, whatever it was made of; `column`: to name where it can't be one."""
        if not LEAST_RUN_S <= seconds <= MOST_S:
            raise self.error(
                column, f"makes a run time of {seconds:g} s; it must be {LEAST_RUN_S:g} to {MOST_S:,.0f} s"
            )
        return seconds

    def whole(self, column: str, *, least: int = 0) -> int:
        value = self.number(column, least=least, most=MOST_WHOLE)
        if value != int(value):
            raise self.error(column, f"{self.text(column)[:40]} is not a whole number")
        return int(value)

    def error(self, column: str, problem: str) -> BadInput:
        return BadInput(f"{self._table.path}, line {self.line}, {column}: {problem}.")


class Table:
    """A text table opened for one pass: a file, or a stream that `path` is the name of."""

    def __init__(self, path: Path, stream: IO[str] | None = None) -> None:
        self.path = path
        self.skipped = 0
        self.notes: list[str] = []
        try:
            self._file = stream or path.open(encoding="utf-8-sig", errors="replace", newline=None)
        except OSError as exc:
            raise BadInput(f"{path} can't be read: {exc.strerror}.") from exc
        self._header: str | None = None

    def __enter__(self) -> Table:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._file.close()

    def header(self) -> str:
        if self._header is None:
            try:
                self._header = self._line(1).rstrip("\n")
            except OSError as exc:
                raise BadInput(f"{self.path} can't be read: {exc.strerror}.") from exc
            if not self._header.strip():
                raise BadInput(f"{self.path}, line 1: the file is empty or begins with an empty line.")
        return self._header

    def sniff(self) -> str:
        for name, fmt in FORMATS.items():
            if fmt.sniff(self.header()):
                return name
        shown = self.header()[:80]
        raise BadInput(
            f"{self.path}, line 1: no known trace begins with {shown!r}; say --format ({', '.join(FORMATS)})."
        )

    def columns(self, separator: str, required: tuple[str, ...]) -> dict[str, int]:
        """Where each column of the header stands."""
        names = [name.strip().strip('"') for name in self.header().split(separator)]
        at = {name: i for i, name in enumerate(names)}
        missing = [name for name in required if name not in at]
        if missing:
            raise BadInput(
                f"{self.path}, line 1: column {', '.join(missing)} is missing; found {', '.join(names)[:200]}."
            )
        return at

    def missing(self, column: str, why: str) -> BadInput:
        return BadInput(f"{self.path}, line 1: column {column} is missing; {why}.")

    def rows(self, separator: str, at: dict[str, int], *, header: bool = True) -> Iterator[Row]:
        """Every line that is not empty. The caller's BadInput for a torn last line becomes a counted skip."""
        first = self.header()
        if not header:
            yield Row(self, 1, first.split(separator), at)
        number = 1
        while line := self._line(number := number + 1):
            if number > MAX_JOBS + 1:
                raise BadInput(f"{self.path}, line {number}: more than {MAX_JOBS:,} jobs; cut the trace.")
            if line.strip(" \t\n"):  # a separator is no blank
                yield Row(self, number, line.rstrip("\n").split(separator), at, torn=not line.endswith("\n"))

    def each(
        self, rows: Iterator[Row], parse: Callable[[Row], T | None], *, odd_is_skipped: bool = False
    ) -> Iterator[T]:
        """Parse row by row; None is a counted skip. `odd_is_skipped`: a bad row too, as long as any row is good."""
        good, odd = False, list[BadInput]()
        for row in rows:
            try:
                parsed = parse(row)
            except BadInput as error:
                if row.torn:
                    self.skipped += 1
                    self.notes.append(f"line {row.line}, the last, is torn and was left out")
                    break
                if not odd_is_skipped:
                    raise
                self.skipped += 1
                odd.append(error)
                continue
            good = True
            if parsed is None:
                self.skipped += 1
            else:
                yield parsed
        if odd and not good:
            raise odd[0]
        self.notes += [f"left out: {error}" for error in odd[:MOST_NOTES]]
        if len(odd) > MOST_NOTES:
            self.notes.append(f"{len(odd) - MOST_NOTES} more rows that can't be read were left out")

    def _line(self, number: int) -> str:
        line = self._file.readline(MAX_LINE + 1)
        if len(line) > MAX_LINE:
            raise BadInput(f"{self.path}, line {number}: longer than {MAX_LINE:,} characters; this is no trace.")
        return line


@dataclass(slots=True)
class AppShelf:
    """One App per (name, class, seconds per step), shared by all jobs that have it."""

    comm: tuple[float, float, float, float]
    _apps: dict[tuple[str, str, float], App] = field(default_factory=dict)

    def get(self, name: str, cls: str, s_per_step: float) -> App:
        key = (name, cls, s_per_step)
        app = self._apps.get(key)
        if app is None:
            app = self._apps[key] = App(name, cls, {"gpu": s_per_step}, self.comm)
        return app
