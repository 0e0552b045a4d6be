"""`lv`: the least step time over every span that can be asked for (PAL's locality times variability, exact)."""

from __future__ import annotations

from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import placements

placements.register("lv", lambda _: Ranking())
