"""`packed`: blind to scores; the narrowest span, the node with the fewest GPUs left over, the lowest slots."""

from __future__ import annotations

from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import placements

placements.register("packed", lambda _: Ranking(scores=False))
