"""GPUs by UUID, and where each sits and sat. In: sightings. Out: ids, current places, the life of one card.

A score belongs to a UUID. When a card moves, its old place is closed and a new one opened; whatever takes the old place
is another card, so neither inherits the other's score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update

from pal_slurm.store.engine import Store
from pal_slurm.store.tables import gpu_slots, gpus


@dataclass(frozen=True, slots=True)
class Sighting:
    """A GPU seen in a slot. `model` may be empty: not told."""

    uuid: str
    node: str
    slot: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class Stay:
    """A GPU's time in one place."""

    uuid: str
    model: str
    node: str
    slot: int
    since: float
    until: float | None


class GpuRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def see(self, sightings: Sequence[Sighting], now: float) -> None:
        with self._store.writing() as db:
            record_sightings(db, sightings, now)

    def current(self) -> list[Stay]:
        """All GPUs that sit somewhere, by node and slot."""
        return self._stays(gpu_slots.c.until.is_(None))

    def life(self, uuid: str) -> list[Stay]:
        """Everywhere that a card has been, oldest first."""
        return sorted(self._stays(gpus.c.uuid == uuid), key=lambda stay: stay.since)

    def _stays(self, condition: object) -> list[Stay]:
        query = (
            select(gpus.c.uuid, gpus.c.model, gpu_slots.c.node, gpu_slots.c.slot, gpu_slots.c.since, gpu_slots.c.until)
            .join_from(gpu_slots, gpus)
            .where(condition)  # type: ignore[arg-type]
            .order_by(gpu_slots.c.node, gpu_slots.c.slot)
        )
        with self._store.reading() as db:
            return [Stay(*row) for row in db.execute(query)]


def ids_by_uuid(db: Connection) -> dict[str, int]:
    return {row.uuid: row.id for row in db.execute(select(gpus.c.uuid, gpus.c.id))}


def places(db: Connection) -> dict[tuple[str, int], str]:
    """(node, slot) -> UUID of what sits there now."""
    query = select(gpu_slots.c.node, gpu_slots.c.slot, gpus.c.uuid).join_from(gpu_slots, gpus)
    return {(node, slot): uuid for node, slot, uuid in db.execute(query.where(gpu_slots.c.until.is_(None)))}


def record_sightings(db: Connection, sightings: Iterable[Sighting], now: float) -> dict[str, int]:
    """Bring identity and place up to date within a transaction; UUID -> id of every GPU known afterwards."""
    seen = {s.uuid: s for s in sightings}
    ids = ids_by_uuid(db)
    new = [s for s in seen.values() if s.uuid not in ids]
    if new:
        rows = [{"uuid": s.uuid, "model": s.model, "first_seen": now, "last_seen": now} for s in new]
        db.execute(insert(gpus), rows)
        ids = ids_by_uuid(db)
    again = [{"id_": ids[s.uuid], "now": now} for s in seen.values()]
    if again:
        db.execute(update(gpus).where(gpus.c.id == bindparam("id_")).values(last_seen=bindparam("now")), again)
    named = [{"id_": ids[s.uuid], "told": s.model} for s in seen.values() if s.model]
    if named:
        db.execute(update(gpus).where(gpus.c.id == bindparam("id_")).values(model=bindparam("told")), named)
    _move(db, list(seen.values()), ids, now)
    return ids


def _move(db: Connection, seen: Sequence[Sighting], ids: dict[str, int], now: float) -> None:
    sits = places(db)
    where = {uuid: place for place, uuid in sits.items()}
    left: set[str] = set()
    arrived: list[Sighting] = []
    for s in seen:
        if where.get(s.uuid) == (s.node, s.slot):
            continue
        arrived.append(s)
        if s.uuid in where:
            left.add(s.uuid)
        if (other := sits.get((s.node, s.slot))) is not None:
            left.add(other)  # it was pulled out, or moved and will be seen elsewhere
    if left:
        closing = update(gpu_slots).where(gpu_slots.c.gpu_id == bindparam("id_"), gpu_slots.c.until.is_(None))
        db.execute(closing.values(until=bindparam("now")), [{"id_": ids[uuid], "now": now} for uuid in sorted(left)])
    if arrived:
        rows = [{"gpu_id": ids[s.uuid], "node": s.node, "slot": s.slot, "since": now} for s in arrived]
        db.execute(insert(gpu_slots), rows)
