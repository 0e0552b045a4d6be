"""What commands that run all lines of a page share: which parts there are, what is kept of them, how it ends.

`--keep FILE` adds the verdicts to a file as they come, and skips the parts that are in it already. What differs is
printed. Exit code 1: something does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic

import msgspec

from tests.slurm.shapes.options import RELEASES
from tests.slurm.verdicts.verdict import V


class Part(msgspec.Struct, Generic[V]):
    name: str
    seconds: float
    verdicts: list[V]


def parser(of: str, does: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=of, description=does)
    made.add_argument("--write", type=Path, metavar="PAGE")
    made.add_argument("--keep", type=Path, metavar="FILE")
    made.add_argument("--release", action="append", choices=RELEASES)
    return made


def run_parts(parts: Mapping[str, Callable[[], list[V]]], kind: type[V], keep: Path | None) -> list[V]:
    lines = keep.read_text().splitlines() if keep and keep.exists() else []
    made = [msgspec.json.decode(line, type=Part[kind]) for line in lines]  # type: ignore[valid-type]
    have = {part.name for part in made}
    for name, run in parts.items():
        if name in have:
            continue
        began = time.monotonic()
        part = Part(name, 0.0, run())
        part.seconds = time.monotonic() - began
        made.append(part)
        print(f"{name}: {len(part.verdicts)} verdicts in {part.seconds:.0f} s", file=sys.stderr)
        if keep:
            with keep.open("a") as file:
                file.write(msgspec.json.encode(part).decode() + "\n")
    return [verdict for part in made for verdict in part.verdicts]


def ended(verdicts: Sequence[V], page: Callable[[Sequence[V]], str], write: Path | None) -> int:
    for verdict in verdicts:
        for difference in verdict.differs:
            print(f"{verdict.release} {verdict.backend}: {verdict.what}: {difference}")
    if write:
        write.write_text(page(verdicts))
    return 1 if any(verdict.differs for verdict in verdicts) else 0
