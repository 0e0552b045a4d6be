"""`python -m tests.slurm.edits --write docs/edits.md`: runs all cases on all releases, and writes the page.

`--keep FILE` adds the verdicts to a file as they come, and skips the parts that are in it already; `--release`,
`--state`, `--part` and `--backend` ask for some. What differs is printed. Exit code 1: something does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import msgspec

from tests.slurm.edits.compare import Verdict, compare
from tests.slurm.edits.page import page
from tests.slurm.edits.rows import PARTS, STATES, a_part
from tests.slurm.shapes.compare import backends_of
from tests.slurm.shapes.options import RELEASES


class Batch(msgspec.Struct):
    release: str
    state: str
    part: int
    seconds: float
    verdicts: list[Verdict]


def run(release: str, state: str, part: int, backends: Sequence[str], only: str = "") -> Batch:
    began = time.monotonic()
    cases = [case for case in a_part(release, state, part) if only in case.line]
    with tempfile.TemporaryDirectory(prefix="pal-edits-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        found = (
            compare(release, cases, Path(home), f"edits{os.getpid()}-{state}{part}-{release}", backends)
            if cases
            else []
        )
    return Batch(release, state, part, time.monotonic() - began, found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="edits", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--release", action="append", choices=RELEASES)
    parser.add_argument("--state", action="append", choices=tuple(STATES))
    parser.add_argument("--backend", action="append", choices=("cli", "pyslurm"))
    parser.add_argument("--part", action="append", type=int, choices=range(PARTS))
    parser.add_argument("--only", default="", metavar="WORD")
    options = parser.parse_args()
    lines = options.keep.read_text().splitlines() if options.keep and options.keep.exists() else []
    batches = [msgspec.json.decode(line, type=Batch) for line in lines]
    have = {(batch.release, batch.state, batch.part) for batch in batches}
    for release in options.release or RELEASES:
        for state, part in product(options.state or STATES, options.part or range(PARTS)):
            if (release, state, part) in have:
                continue
            ways = [way for way in backends_of(release) if way in (options.backend or [way])]
            batch = run(release, state, part, ways, options.only)
            batches.append(batch)
            print(f"{release}, {state}{part}: {len(batch.verdicts)} verdicts in {batch.seconds:.0f} s", file=sys.stderr)
            if options.keep:
                with options.keep.open("a") as file:
                    file.write(msgspec.json.encode(batch).decode() + "\n")
    verdicts = [verdict for batch in batches for verdict in batch.verdicts]
    for verdict in verdicts:
        for difference in verdict.differs:
            print(f"{verdict.release} {verdict.backend}: {verdict.state}: {verdict.line}: {difference}")
    if options.write:
        options.write.write_text(page(verdicts))
    return 1 if any(verdict.differs for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
