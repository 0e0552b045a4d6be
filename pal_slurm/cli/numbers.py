"""Numbers on a command line. In: words. Out: a number within its limits, or a sentence that names the option.

click's own types take what Python takes: `nan` (which is within every range), `inf`, `1_0`, digits of other scripts.
"""

from __future__ import annotations

import re
from typing import Any

import click

_FLOAT = re.compile(r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?")
_INT = re.compile(r"[+-]?[0-9]{1,18}")
MOST = 1e9  # of what has no limit of its own: seconds, days, factors


class Number(click.FloatRange):
    def __init__(self, least: float, most: float | None = None) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, str) and not _FLOAT.fullmatch(value):
            self.fail(f"{value!r} is not a number.", param, ctx)
        number = float(super().convert(value, param, ctx))
        if number > MOST:
            self.fail(f"{value} is more than {MOST:g}.", param, ctx)
        return number


class Whole(click.IntRange):
    def __init__(self, least: int, most: int | None = None) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and not _INT.fullmatch(value):
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        return int(super().convert(value, param, ctx))
