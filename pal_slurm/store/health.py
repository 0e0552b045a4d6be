"""`palctl db check`. In: a store. Out: faults in words, and how many rows each table has."""

from __future__ import annotations

from sqlalchemy import func, select

from pal_slurm.store.engine import Store
from pal_slurm.store.tables import metadata


def faults(store: Store) -> list[str]:
    """What the database itself finds wrong with it; empty: nothing. SQLite only: the others look after themselves."""
    if store.engine.dialect.name != "sqlite":
        return []
    with store.reading() as db:
        found = [str(line) for line in db.exec_driver_sql("PRAGMA integrity_check(20)").scalars() if line != "ok"]
        orphans = db.exec_driver_sql("PRAGMA foreign_key_check").all()
    return found + [f"table {row[0]}, row {row[1]}: its {row[2]} is missing" for row in orphans[:20]]


def row_counts(store: Store) -> dict[str, int]:
    with store.reading() as db:
        return {
            str(table.name): db.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }
