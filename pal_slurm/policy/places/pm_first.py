"""`pm-first`: the GPUs with the lowest scores, however far apart."""

from __future__ import annotations

from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import placements

placements.register("pm-first", lambda _: Ranking(spans=False))
