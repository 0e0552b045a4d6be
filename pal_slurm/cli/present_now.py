"""What pald saw a moment ago, on its own host. In: pal.yaml. Out: a Present, or none."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pal_slurm.errors import BadInput

if TYPE_CHECKING:
    from pal_slurm.cli.context import Palctl
    from pal_slurm.report.present import Present

FRESH_S = 60.0


def present_now(palctl: Palctl) -> Present | None:
    """None: pald writes it down nowhere, or is silent."""
    from pal_slurm.report.present import from_bytes

    path = palctl.config.page.view(palctl.config.cycle.alive_file)
    with suppress(OSError, BadInput):
        seen = from_bytes(path.read_bytes()) if path is not None else None
        if seen is not None and seen.cluster == palctl.cluster and time.time() - seen.ended < FRESH_S:
            return seen
    return None
