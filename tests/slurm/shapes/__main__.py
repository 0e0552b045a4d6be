"""`python -m tests.slurm.shapes --write docs/shapes.md`: runs all rows on all releases, and writes the page.

`--keep FILE` adds the verdicts to a file as they come, and skips the thirds that are in it already; `--release` asks
for one release. What differs is printed. Exit code 1: something does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.slurm.shapes.compare import THIRDS, Verdict, a_third, backends_of, compare
from tests.slurm.shapes.options import RELEASES
from tests.slurm.shapes.page import page


class Batch(msgspec.Struct):
    release: str
    third: int
    seconds: float
    verdicts: list[Verdict]


def run(release: str, third: int, backends: Sequence[str]) -> Batch:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pal-shapes-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        rows = a_third(release, third)
        found = compare(release, rows, Path(home), f"shapes{os.getpid()}-{third}-{release}", backends)
    return Batch(release, third, time.monotonic() - began, found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="shapes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--release", action="append", choices=RELEASES)
    options = parser.parse_args()
    lines = options.keep.read_text().splitlines() if options.keep and options.keep.exists() else []
    batches = [msgspec.json.decode(line, type=Batch) for line in lines]
    have = {(batch.release, batch.third) for batch in batches}
    for release in options.release or RELEASES:
        for third in range(THIRDS):
            if (release, third) in have:
                continue
            batch = run(release, third, backends_of(release))
            batches.append(batch)
            print(f"{release}, third {third}: {len(batch.verdicts)} verdicts in {batch.seconds:.0f} s", file=sys.stderr)
            if options.keep:
                with options.keep.open("a") as file:
                    file.write(msgspec.json.encode(batch).decode() + "\n")
    verdicts = [verdict for batch in batches for verdict in batch.verdicts]
    for verdict in verdicts:
        for difference in verdict.differs:
            print(f"{verdict.release} {verdict.backend}: {verdict.row}: {difference}")
    if options.write:
        options.write.write_text(page(verdicts))
    return 1 if any(verdict.differs for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
