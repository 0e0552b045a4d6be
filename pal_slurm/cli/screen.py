"""How things are shown: colours, times, a pager. In: options, environment, terminal. Out: the same, settled once.

NO_COLOR (no-color.org) and `--color` say about colours; without them a terminal has some, and nothing else does. A long
table goes through PAGER.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence

import click

COLOURS = ("auto", "always", "never")


def settle(ctx: click.Context, colour: str, *, utc: bool, pager: bool) -> None:
    """For this command; what is set is taken back at its end, as tests run many in one process."""
    if colour != "auto" or os.environ.get("NO_COLOR"):
        ctx.color = colour == "always"
    ctx.meta["pager"] = pager
    if utc:
        ctx.call_on_close(_in_zone("UTC"))


def _in_zone(zone: str) -> Callable[[], None]:
    before = os.environ.get("TZ")

    def back() -> None:
        if before is None:
            os.environ.pop("TZ", None)
        else:
            os.environ["TZ"] = before
        time.tzset()

    os.environ["TZ"] = zone
    time.tzset()
    return back


def coloured() -> bool:
    """Whether cells may be painted."""
    ctx = click.get_current_context(silent=True)
    told = None if ctx is None else ctx.color
    return sys.stdout.isatty() if told is None else told


def show(lines: Sequence[str]) -> None:
    """Lines on standard output; through the pager where they are more than the terminal has."""
    text = "\n".join(lines)
    ctx = click.get_current_context(silent=True)
    wanted = ctx is not None and ctx.meta.get("pager", False)
    if wanted and sys.stdout.isatty() and sys.stdin.isatty() and len(lines) >= shutil.get_terminal_size().lines:
        os.environ.setdefault("LESS", "FRSX")  # long lines are cut, not folded; colours pass
        click.echo_via_pager(text + "\n", color=coloured())
    else:
        click.echo(text)
