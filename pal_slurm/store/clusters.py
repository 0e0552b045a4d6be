"""Which clusters a database knows. In: a store. Out: names."""

from __future__ import annotations

from sqlalchemy import select, union

from pal_slurm.store.engine import Store
from pal_slurm.store.tables import decisions, leader, operations, outcomes


def known_clusters(store: Store) -> list[str]:
    """The ClusterName of every Slurm that a pald worked for with this database."""
    named = union(*(select(table.c.cluster) for table in (leader, decisions, operations, outcomes)))
    with store.reading() as db:
        return sorted(db.execute(named).scalars())
