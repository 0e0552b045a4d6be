"""Applications that were described or measured. In, out: model.App. What pal.yaml says of an app wins over these."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from pal_slurm.model import App
from pal_slurm.store.engine import Store
from pal_slurm.store.rows import values
from pal_slurm.store.state import bump, revision
from pal_slurm.store.tables import apps

KEPT = (apps.c.name, apps.c.cls, apps.c.base, apps.c.comm)  # what GPUs without a link cost only pal.yaml tells


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
        rows = [{**values(app, "unlinked", "shown"), "source": source, "set_at": now} for app in described]
        if not rows:
            return
        with self._store.writing() as db:
            db.execute(delete(apps).where(apps.c.name.in_([row["name"] for row in rows])))
            db.execute(insert(apps), rows)
            bump(db, "apps", now)

    def all(self) -> dict[str, StoredApp]:
        with self._store.reading() as db:
            found = db.execute(select(*KEPT, apps.c.source, apps.c.set_at).order_by(apps.c.name)).all()
        return {app[0]: StoredApp(App(*app), source, set_at) for *app, source, set_at in found}

    def revision(self) -> int:
        with self._store.reading() as db:
            return revision(db, "apps")
