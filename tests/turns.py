"""Whose turn it is: of what a push runs a part, another part at each; `--slow` runs all.

In: PAL_TEST_TURN, else the number of commits. Out: a number, the same in every process of a run.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


@cache
def _commits() -> str:
    asked = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "0"


def turn(of: int) -> int:
    """Of so many parts, the one of this push."""
    return int(os.environ.get("PAL_TEST_TURN") or _commits()) % of
