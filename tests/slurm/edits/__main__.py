"""`python -m tests.slurm.edits --write docs/edits.md`: runs all cases on all releases, and writes the page.

`--release`, `--state`, `--part` and `--backend` ask for some; the rest is of tests/slurm/verdicts/command.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

from tests.slurm.edits.compare import EditVerdict, compare
from tests.slurm.edits.page import page
from tests.slurm.edits.rows import PARTS, STATES, a_part
from tests.slurm.shapes.compare import backends_of
from tests.slurm.shapes.options import RELEASES
from tests.slurm.verdicts.command import ended, parser, run_parts


def run(release: str, state: str, part: int, backends: Sequence[str], only: str = "") -> list[EditVerdict]:
    cases = [case for case in a_part(release, state, part) if only in case.line]
    if not cases:
        return []
    with tempfile.TemporaryDirectory(prefix="pal-edits-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        return compare(release, cases, Path(home), f"edits{os.getpid()}-{state}{part}-{release}", backends)


def main() -> int:
    asked = parser("edits", (__doc__ or "").splitlines()[0])
    asked.add_argument("--state", action="append", choices=tuple(STATES))
    asked.add_argument("--backend", action="append", choices=("cli", "pyslurm"))
    asked.add_argument("--part", action="append", type=int, choices=range(PARTS))
    asked.add_argument("--only", default="", metavar="WORD")
    options = asked.parse_args()
    parts = {}
    for release in options.release or RELEASES:
        ways = [way for way in backends_of(release) if way in (options.backend or [way])]
        for state, part in product(options.state or STATES, options.part or range(PARTS)):
            parts[f"{release}, {state}{part}"] = partial(run, release, state, part, ways, options.only)
    return ended(run_parts(parts, EditVerdict, options.keep), page, options.write)


if __name__ == "__main__":
    sys.exit(main())
