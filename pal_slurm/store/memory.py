"""What a policy remembers between plans: one fenced row per cluster. In: plain values. Out: the same."""

from __future__ import annotations

import msgspec
from sqlalchemy import insert, select, update

from pal_slurm.store.engine import Store
from pal_slurm.store.jsontext import dump
from pal_slurm.store.tables import memory


class MemoryRepo:
    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._mine = memory.c.cluster == cluster

    def keep(self, plain: object, fence: int, now: float) -> None:
        """Instead of what was there, unless a newer leader has written it."""
        row = {"fence": fence, "value": dump(plain), "written_at": now}
        with self._store.writing() as db:
            held = db.execute(select(memory.c.fence).where(self._mine).with_for_update()).scalar_one_or_none()
            if held is None:
                db.execute(insert(memory).values(row | {"cluster": self._cluster}))
            elif held <= fence:
                db.execute(update(memory).where(self._mine).values(row))

    def stored(self) -> object:
        """None: there is nothing. What is no JSON comes as its text: nobody can take that for a memory."""
        with self._store.reading() as db:
            text = db.execute(select(memory.c.value).where(self._mine)).scalar_one_or_none()
        if text is None:
            return None
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return text
