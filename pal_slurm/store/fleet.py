"""Nights of the whole fleet in few rows. In: nights. Out: levels per kernel, GPUs per night.

The database adds up: a year of 10,000 GPUs is 15 million rows, and a report wants some hundred figures of them.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select

from pal_slurm.store.engine import Store
from pal_slurm.store.tables import gpus, nights


class LevelRow(NamedTuple):
    """One kernel, model and night."""

    cls: str
    app: str
    scope: str
    model: str
    night: int
    gpus: int
    runs: int
    stalls: int
    node_stalls: int
    seconds: float  # what the median GPU took


class FleetRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def levels(self, first: int) -> list[LevelRow]:
        """Since that night, oldest first. A night's own scores were made with its level, so any of them tells it."""
        c = nights.c
        key = (c.cls, c.app, c.scope, gpus.c.model, c.night)
        query = (
            select(
                *key,
                func.count(),
                func.sum(c.runs),
                func.sum(c.stalls),
                func.sum(c.node_stalls),
                func.avg(c.seconds / c.score),
            )
            .join_from(nights, gpus)
            .where(c.night >= first, c.score > 0)
            .group_by(*key)
            .order_by(*key)
        )
        with self._store.reading() as db:
            return [
                LevelRow(cls, app, scope, model, night, int(n), int(runs), int(stalls), int(of_nodes), float(seconds))
                for cls, app, scope, model, night, n, runs, stalls, of_nodes, seconds in db.execute(query)
            ]

    def profiled(self, first: int) -> dict[int, int]:
        """How many GPUs each night since then measured."""
        query = select(nights.c.night, func.count(nights.c.gpu_id.distinct())).where(nights.c.night >= first)
        with self._store.reading() as db:
            return {
                night: int(count)
                for night, count in db.execute(query.group_by(nights.c.night).order_by(nights.c.night))
            }
