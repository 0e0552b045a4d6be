"""`prices`: a job takes the pool that costs it, and those who wait with it, least (choice.py)."""

from __future__ import annotations

from pal_slurm.model import Cluster
from pal_slurm.policy.pools.choice import PoolMap
from pal_slurm.policy.seams import pool_choices


class Prices:
    def map(self, cluster: Cluster) -> PoolMap | None:
        """With one model there is nothing to choose."""
        return PoolMap(cluster) if len(cluster.models) > 1 else None


pool_choices.register("prices", lambda _: Prices())
