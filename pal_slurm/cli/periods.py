"""Times on a command line. In: `30d` or `2026-10-01`. Out: epoch seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from pal_slurm.errors import BadInput

F = TypeVar("F", bound=Callable[..., Any])

DAY_S = 86_400.0
_UNITS = {"h": 3_600.0, "d": DAY_S, "w": 7 * DAY_S, "y": 365 * DAY_S}
_AGO = re.compile(r"([0-9]{1,6})([hdwy])")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = datetime(1970, 1, 1).toordinal()
_EXAMPLES = "write 30d, 12w or 1y for so long ago, or a day as 2026-10-01 or 2026-10-01T14:00"


def moment(option: str, text: str, now: float) -> float:
    """A time in the past; a day is its beginning, in local time."""
    if ago := _AGO.fullmatch(text.strip().lower()):
        return max(0.0, now - int(ago[1]) * _UNITS[ago[2]])
    try:
        at = datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise BadInput(f"{option} {text!r} can't be read: {_EXAMPLES}") from error
    if at > now:
        raise BadInput(f"{option} {text!r} lies in the future: {_EXAMPLES}")
    return max(0.0, at)


class When(click.types.FloatParamType):
    """The type of an option: a time in the past, as epoch seconds."""

    name = "WHEN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return float(value)
        try:
            return moment(param.opts[-1] if param else self.name, value, time.time())
        except BadInput as error:
            self.fail(str(error), param, ctx)


def since_option(default: str | None, what: str) -> Callable[[F], F]:
    """`--since 7d`, the one spelling of periods, given to a command as `since`: epoch seconds."""
    text = f"{what}: 12h, 7d, 4w, 1y, or a day as 2026-10-01."
    return click.option("--since", type=When(), metavar="WHEN", default=default, show_default=True, help=text)


def first_night(option: str, text: str, now: float) -> int:
    """The night that a period begins with; a day is the night of that date in UTC, as nights are stored."""
    at = moment(option, text, now)
    if _DAY.fullmatch(text.strip()):
        return datetime.fromisoformat(text.strip()).toordinal() - _EPOCH
    return int(at // DAY_S)
