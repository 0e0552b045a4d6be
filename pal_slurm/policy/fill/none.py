"""`none`: nobody passes anybody."""

from __future__ import annotations

from pal_slurm.policy.seams import Fill, fills

fills.register("none", lambda _: Fill("none", reserve=1, strict=True))
