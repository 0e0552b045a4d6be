"""`python -m tests.slurm.shapes --write docs/shapes.md`: runs all rows on all releases, and writes the page.

`--release` asks for one release; the rest is of tests/slurm/verdicts/command.py.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.slurm.shapes.compare import THIRDS, a_third, backends_of, compare
from tests.slurm.shapes.options import RELEASES
from tests.slurm.shapes.page import page
from tests.slurm.verdicts.command import ended, parser, run_parts
from tests.slurm.verdicts.verdict import Verdict


def run(release: str, third: int, backends: Sequence[str]) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="pal-shapes-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        rows = a_third(release, third)
        return compare(release, rows, Path(home), f"shapes{os.getpid()}-{third}-{release}", backends)


def main() -> int:
    options = parser("shapes", (__doc__ or "").splitlines()[0]).parse_args()
    parts = {
        f"{release}, third {third}": partial(run, release, third, backends_of(release))
        for release in options.release or RELEASES
        for third in range(THIRDS)
    }
    return ended(run_parts(parts, Verdict, options.keep), page, options.write)


if __name__ == "__main__":
    sys.exit(main())
