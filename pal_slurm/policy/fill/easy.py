"""`easy`: the first that does not fit gets a reservation, and later jobs start only where that stands (EASY)."""

from __future__ import annotations

from pal_slurm.policy.seams import Fill, fills

EASY = Fill("easy", reserve=1, strict=False)
fills.register("easy", lambda _: EASY)
