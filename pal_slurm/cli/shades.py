"""Colours and pictures of scores on a terminal. In: rows of a table. Out: painted cells; how wide pictures may be."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pal_slurm.report.history import Look
    from pal_slurm.report.text import Paint, Row

SCALE = ((0.98, "cyan"), (1.05, "green"), (1.15, None), (1.3, "yellow"))  # up to there; beyond is red
NARROWEST = 8  # columns of a picture


def shade(score: float) -> str | None:
    return next((colour for limit, colour in SCALE if score <= limit), "red")


def score_paint(scores: Iterable[str]) -> Paint:
    """`scores`: the columns that hold scores. A drift is painted where it surely is one."""
    fields = frozenset(scores)

    def paint(row: Row, field: str, cell: str) -> str:
        value = row.get(field)
        if not isinstance(value, float):
            return cell
        if field in fields:
            return click.style(cell, fg=shade(value))
        if field.endswith("drift") and row.get(f"{field.removesuffix('drift')}sure"):
            return click.style(cell, fg="red" if value > 0 else "green")
        return cell

    return paint


def how_drawn(pictures: int, beside: int) -> Look:
    """`pictures`: how many stand in one line; `beside`: what else the line needs."""
    from pal_slurm.report.history import Look
    from pal_slurm.report.spark import WIDTH

    if not sys.stdout.isatty():
        return Look(blocks=False)
    blocks = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    room = shutil.get_terminal_size((120, 24)).columns - beside
    return Look(blocks, max(NARROWEST, min(WIDTH, room // max(pictures, 1))))
