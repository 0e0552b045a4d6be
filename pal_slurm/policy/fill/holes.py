"""`holes`: whoever fits runs, and is stopped again for a job ahead of it: only where jobs may be stopped."""

from __future__ import annotations

from pal_slurm.policy.seams import Fill, fills

fills.register("holes", lambda _: Fill("holes", reserve=0, strict=False))
