"""Applications that were described or measured. In, out: model.App. What pal.yaml says of an app wins over these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from pal_slurm.model import App
from pal_slurm.store.engine import Store
from pal_slurm.store.jsontext import dump, load
from pal_slurm.store.state import bump, revision
from pal_slurm.store.tables import apps


@dataclass(frozen=True, slots=True)
class StoredApp:
    app: App
    source: str  # admin, measured ...
    set_at: float


class AppRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def set(self, described: Iterable[App], source: str, now: float) -> None:
        """Put these in the place of what was known of the same names."""
        rows = [
            {
                "name": a.name,
                "class": a.cls,
                "base": dump(dict(a.base)),
                "comm": dump(a.comm),
                "source": source,
                "set_at": now,
            }
            for a in described
        ]
        if not rows:
            return
        with self._store.writing() as db:
            db.execute(delete(apps).where(apps.c.name.in_([row["name"] for row in rows])))
            db.execute(insert(apps), rows)
            bump(db, "apps", now)

    def all(self) -> dict[str, StoredApp]:
        with self._store.reading() as db:
            rows = db.execute(select(apps).order_by(apps.c.name)).mappings().all()
        return {
            row["name"]: StoredApp(
                App(
                    row["name"],
                    row["class"],
                    load(row["base"], dict[str, float]),
                    load(row["comm"], tuple[float, float, float, float]),
                ),
                row["source"],
                row["set_at"],
            )
            for row in rows
        }

    def revision(self) -> int:
        with self._store.reading() as db:
            return revision(db, "apps")
