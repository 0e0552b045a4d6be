"""`best`: nobody asks which pool; a job takes what is fastest for it, or what its placement likes."""

from __future__ import annotations

from pal_slurm.model import Cluster
from pal_slurm.policy.pools.choice import PoolMap
from pal_slurm.policy.seams import pool_choices


class Best:
    def map(self, cluster: Cluster) -> PoolMap | None:
        return None


pool_choices.register("best", lambda _: Best())
