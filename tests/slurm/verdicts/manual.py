"""Slurm's man pages. In: a page, the name of a section. Out: the lines that begin its entries."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path


def entries(page: Path, section: str) -> Iterator[str]:
    with gzip.open(page, "rt", encoding="utf-8", errors="replace") as file:
        lines = file.read().replace("\\-", "-").splitlines()
    here = before = ""
    for line in lines:
        if line.startswith(".SH"):
            here = line
        if section in here and before.startswith(".TP"):
            yield line
        before = line
