"""Reading foreign JSON strictly. In: a decoded value and where it stands. Out: checked values; defects by their paths.

A wrong field gives a harmless stand-in, so that one reading names every defect; who sees defects uses nothing of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pal_slurm.probe.words import plain, printable

MOST_DEFECTS = 50  # what comes after that says nothing new
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Defect:
    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what


@dataclass(slots=True)
class Defects:
    found: list[Defect] = field(default_factory=list)
    more: int = 0

    def add(self, path: str, what: str) -> None:
        if len(self.found) < MOST_DEFECTS:
            self.found.append(Defect(plain(path, 120), plain(what)))
        else:
            self.more += 1

    def all(self) -> tuple[Defect, ...]:
        if not self.more:
            return tuple(self.found)
        return (*self.found, Defect("", f"{self.more} further defects are not named"))


class Fields:
    """One JSON object, read field by field; `done` reports what nobody asked for."""

    def __init__(self, value: object, path: str, defects: Defects) -> None:
        self.path, self.defects = path, defects
        self._left: dict[str, object] = {}
        if isinstance(value, dict):
            self._left = dict(value)
        else:
            defects.add(path, f"{_kind(value)} instead of an object")
        self._whole = isinstance(value, dict)

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def bad(self, name: str, what: str) -> None:
        self.defects.add(self.at(name), what)

    def take(self, name: str, needed: bool = True) -> object:
        if name in self._left:
            value = self._left.pop(name)
            if value is None and needed:
                self.bad(name, "is null")
            return value
        if needed and self._whole:
            self.bad(name, "is missing")
        return None

    def done(self) -> None:
        for name in list(self._left)[:5]:
            self.bad(plain(name, 40), "is not a field of this format")

    def text(self, name: str, pattern: re.Pattern[str] | None = None, most: int = 64) -> str:
        value = self.take(name)
        return "" if value is None else self._text(name, value, pattern, most)

    def text_or_none(self, name: str, pattern: re.Pattern[str] | None = None, most: int = 64) -> str | None:
        value = self.take(name, needed=False)
        return None if value is None else self._text(name, value, pattern, most)

    def _text(self, name: str, value: object, pattern: re.Pattern[str] | None, most: int) -> str:
        if not isinstance(value, str):
            self.bad(name, f"{_kind(value)} instead of text")
        elif not printable(value):
            self.bad(name, f"{value[:40]!a} holds characters that can't be printed")
        elif pattern is not None and not pattern.fullmatch(value):
            self.bad(name, f"{value[:100]!r} is not a name that is allowed here")
        elif len(value) > most and pattern is None:
            self.bad(name, f"{len(value)} characters, at most {most} are allowed")
        else:
            return value
        return ""

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.take(name)
        if value in allowed:
            return str(value)
        if value is not None:
            self.bad(name, f"{value!r} is none of {', '.join(allowed)}" if isinstance(value, str) else _kind(value))
        return allowed[0]

    def number(self, name: str, low: float, high: float, hint: str = "") -> float:
        value = self.take(name)
        return low if value is None else self._number(name, value, low, high, hint)

    def number_or_none(self, name: str, low: float, high: float, hint: str = "") -> float | None:
        value = self.take(name, needed=False)
        return None if value is None else self._number(name, value, low, high, hint)

    def _number(self, name: str, value: object, low: float, high: float, hint: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.bad(name, f"{_kind(value)} instead of a number")
        elif isinstance(value, float) and not math.isfinite(value):
            self.bad(name, f"{value} is not a finite number")
        elif not low <= value <= high:
            self.bad(name, f"{_short(value)} is outside {low:g} to {high:g}" + (f"; {hint}" if hint else ""))
        else:
            return float(value)
        return low

    def whole(self, name: str, low: int, high: int) -> int:
        value = self.take(name)
        return low if value is None else self._whole_number(name, value, low, high)

    def whole_or_none(self, name: str, low: int, high: int) -> int | None:
        value = self.take(name, needed=False)
        return None if value is None else self._whole_number(name, value, low, high)

    def _whole_number(self, name: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.bad(name, f"{_kind(value)} instead of a whole number")
        elif not low <= value <= high:
            self.bad(name, f"{_short(value)} is outside {low} to {high}")
        else:
            return value
        return low

    def flag(self, name: str) -> bool:
        return self.flag_or_none(name, needed=True) or False

    def flag_or_none(self, name: str, needed: bool = False) -> bool | None:
        value = self.take(name, needed)
        if value is None or isinstance(value, bool):
            return value
        self.bad(name, f"{_kind(value)} instead of true or false")
        return None

    def items(self, name: str, most: int) -> Iterator[tuple[str, object]]:
        """(path, value) of each member of a list."""
        value = self.take(name)
        if value is None:
            return
        if not isinstance(value, list):
            self.bad(name, f"{_kind(value)} instead of a list")
        elif len(value) > most:
            self.bad(name, f"{len(value)} members, at most {most} are allowed")
        else:
            yield from ((f"{self.at(name)}[{i}]", member) for i, member in enumerate(value))

    def objects(self, name: str, most: int, read: Callable[[Fields], T]) -> tuple[T, ...]:
        """The members of a list of objects, each read by `read` and then closed."""
        result: list[T] = []
        for path, value in self.items(name, most):
            fields = Fields(value, path, self.defects)
            result.append(read(fields))
            fields.done()
        return tuple(result)


def _kind(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return "nothing" if value is None else names.get(type(value), "a number")


def _short(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else plain(str(value), 30)
