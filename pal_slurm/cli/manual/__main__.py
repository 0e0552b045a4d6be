"""python -m pal_slurm.cli.manual DIR: write the man pages and completions below DIR."""

from __future__ import annotations

import sys
from pathlib import Path

from pal_slurm.cli.manual import manual


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.stderr.write("usage: python -m pal_slurm.cli.manual DIR\n")
        return 2
    for place, text in manual().items():
        path = Path(sys.argv[1]) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
