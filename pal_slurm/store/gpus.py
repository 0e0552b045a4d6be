"""GPUs by UUID, and where each sits and sat. In: sightings. Out: ids, current places, the life of one card.

A score belongs to a UUID. When a card moves, its old place is closed and a new one opened; whatever takes the old place
is another card, so neither inherits the other's score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update

from pal_slurm.store.engine import Store
from pal_slurm.store.rows import columns
from pal_slurm.store.tables import gpu_slots, gpus


@dataclass(frozen=True, slots=True)
class Sighting:
    """A GPU seen in a slot. `model` and `serial` may be empty: not told."""

    uuid: str
    node: str
    slot: int
    model: str = ""
    at: float | None = None  # when it was seen there; None: now
    serial: str = ""


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
            select(*columns(Stay, gpus, gpu_slots))
            .join_from(gpu_slots, gpus)
            .where(condition)  # type: ignore[arg-type]
            .order_by(gpu_slots.c.node, gpu_slots.c.slot)
        )
        with self._store.reading() as db:
            return [Stay(*row) for row in db.execute(query)]


def places(db: Connection) -> dict[tuple[str, int], str]:
    """(node, slot) -> UUID of what sits there now."""
    query = select(gpu_slots.c.node, gpu_slots.c.slot, gpus.c.uuid).join_from(gpu_slots, gpus)
    return {(node, slot): uuid for node, slot, uuid in db.execute(query.where(gpu_slots.c.until.is_(None)))}


def record_sightings(db: Connection, sightings: Iterable[Sighting], now: float) -> dict[str, int]:
    """Bring identity and place up to date within a transaction; UUID -> id of every GPU known afterwards.

    What came late tells nothing of where a card is that was seen since, nor of a place that another was seen in since.
    """
    in_order = sorted(sightings, key=lambda s: now if s.at is None else s.at)
    ids, last_seen = _known(db)
    models = {s.uuid: s.model for s in in_order}
    new = [{"uuid": u, "model": m, "first_seen": now, "last_seen": 0.0} for u, m in models.items() if u not in ids]
    if new:
        db.execute(insert(gpus), new)
        ids, last_seen = _known(db)
    seen = _newest(in_order, {s: now if s.at is None else s.at for s in in_order}, last_seen, places(db))
    again = [{"id_": ids[s.uuid], "seen": at} for s, at in seen.items()]
    if again:
        db.execute(update(gpus).where(gpus.c.id == bindparam("id_")).values(last_seen=bindparam("seen")), again)
    for column in (gpus.c.model, gpus.c.serial):
        named = [{"id_": ids[s.uuid], "told": told} for s in seen if (told := getattr(s, column.name))]
        if named:
            db.execute(update(gpus).where(gpus.c.id == bindparam("id_")).values({column: bindparam("told")}), named)
    _move(db, seen, ids)
    return ids


def _known(db: Connection) -> tuple[dict[str, int], dict[str, float]]:
    rows = db.execute(select(gpus.c.uuid, gpus.c.id, gpus.c.last_seen)).all()
    return {row.uuid: row.id for row in rows}, {row.uuid: row.last_seen for row in rows}


def _newest(
    in_order: Sequence[Sighting],
    at: Mapping[Sighting, float],
    last_seen: Mapping[str, float],
    sits: Mapping[tuple[str, int], str],
) -> dict[Sighting, float]:
    """The last sighting of each card, unless the card or what sits in its place was seen later."""
    by_card = {s.uuid: s for s in in_order}
    newest: dict[Sighting, float] = {}
    for s in by_card.values():
        occupant = sits.get((s.node, s.slot), s.uuid)
        if at[s] >= last_seen[s.uuid] and (occupant in by_card or at[s] >= last_seen[occupant]):
            newest[s] = at[s]
    return newest


def _move(db: Connection, seen: Mapping[Sighting, float], ids: dict[str, int]) -> None:
    sits = places(db)
    where = {uuid: place for place, uuid in sits.items()}
    left: dict[str, float] = {}
    arrived: dict[tuple[str, int], tuple[Sighting, float]] = {}
    for s, at in seen.items():
        if where.get(s.uuid) == (s.node, s.slot):
            continue
        if (before := arrived.get((s.node, s.slot))) is not None:
            left.pop(before[0].uuid, None)  # two cards in one place: the later one is there
        arrived[s.node, s.slot] = (s, at)
        if s.uuid in where:
            left[s.uuid] = at
        if (other := sits.get((s.node, s.slot))) is not None:
            left[other] = at  # it was pulled out, or moved and will be seen elsewhere
    if left:
        closing = update(gpu_slots).where(gpu_slots.c.gpu_id == bindparam("id_"), gpu_slots.c.until.is_(None))
        db.execute(
            closing.values(until=bindparam("at")), [{"id_": ids[uuid], "at": at} for uuid, at in sorted(left.items())]
        )
    if arrived:
        rows = [{"gpu_id": ids[s.uuid], "node": s.node, "slot": s.slot, "since": at} for s, at in arrived.values()]
        db.execute(insert(gpu_slots), rows)
