"""One card. In: its UUID. Out: who it is, its nights kernel by kernel, its scores, and the jobs that ran on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Text, select, type_coerce

from pal_slurm.store.engine import Store
from pal_slurm.store.gpus import Stay
from pal_slurm.store.rows import columns
from pal_slurm.store.tables import gpu_slots, gpus, job_samples, nights, outcomes, scores

_MOST = 500  # starts of jobs that are looked through per node, newest first


@dataclass(frozen=True, slots=True)
class Identity:
    id: int
    uuid: str
    model: str
    serial: str | None
    first_seen: float
    last_seen: float


class CardNight(NamedTuple):
    """What it did in one night with one kernel."""

    cls: str
    app: str  # empty: only the class was told
    scope: str
    night: int
    seconds: float
    score: float | None
    runs: int
    stalls: int
    node_stalls: int
    node: str
    setup: str  # driver|power cap


class CardScore(NamedTuple):
    cls: str
    score: float
    ci_low: float | None
    ci_high: float | None
    measured_at: float
    source: str
    n_runs: int
    nights: int | None
    stalls: int | None
    node_stalls: int | None
    node_part: float | None
    intermittent: bool | None
    profiled: float | None
    jobs: int | None
    asked: float | None  # what one user's jobs say: it waits for a witness


class CardJob(NamedTuple):
    """A job that ran on it, as far as pald saw it start or its nodes watched it."""

    cluster: str
    job: str  # as Slurm prints it
    app: str | None
    start: float
    end: float | None
    node: str
    gpus: int | None  # of the whole job
    predicted: float | None  # seconds per step
    measured: float | None


class CardRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def uuids(self) -> list[str]:
        with self._store.reading() as db:
            return list(db.execute(select(gpus.c.uuid).order_by(gpus.c.uuid)).scalars())

    def identity(self, uuid: str) -> Identity | None:
        with self._store.reading() as db:
            row = db.execute(select(*columns(Identity, gpus)).where(gpus.c.uuid == uuid)).first()
        return None if row is None else Identity(*row)

    def in_slot(self, node: str, slot: int) -> list[Stay]:
        """Who sat there, oldest first."""
        c = gpu_slots.c
        query = select(*columns(Stay, gpus, gpu_slots)).join_from(gpu_slots, gpus).order_by(c.since, c.id)
        with self._store.reading() as db:
            return [Stay(*row) for row in db.execute(query.where(c.node == node, c.slot == slot))]

    def places(self) -> list[tuple[str, int]]:
        """Every slot that a card ever sat in."""
        query = select(gpu_slots.c.node, gpu_slots.c.slot).distinct().order_by(gpu_slots.c.node, gpu_slots.c.slot)
        with self._store.reading() as db:
            return [(node, slot) for node, slot in db.execute(query)]

    def nights(self, uuid: str) -> list[CardNight]:
        """Kernel by kernel, oldest first."""
        query = select(*columns(CardNight, nights)).join_from(nights, gpus).where(gpus.c.uuid == uuid)
        c = nights.c
        with self._store.reading() as db:
            return [CardNight(*row) for row in db.execute(query.order_by(c.cls, c.app, c.scope, c.night))]

    def scores(self, card: Identity) -> list[CardScore]:
        query = select(*columns(CardScore, scores)).where(scores.c.gpu_id == card.id).order_by(scores.c.cls)
        with self._store.reading() as db:
            return [CardScore(*row) for row in db.execute(query)]

    def jobs(self, stays: Sequence[Stay], since: float) -> list[CardJob]:
        """Newest first. A job that both pald and its nodes told of stands there once."""
        found = {(job.cluster, job.job, job.node): job for job in sorted(self._started(stays, since), key=_start)}
        for watched in sorted(self._watched(stays, since), key=_start):
            key = (watched.cluster, watched.job, watched.node)
            told = found.get(key)
            found[key] = told._replace(measured=watched.measured) if told else watched
        return sorted(found.values(), key=_start, reverse=True)

    def _started(self, stays: Sequence[Stay], since: float) -> Iterator[CardJob]:
        c = outcomes.c
        for node in sorted({stay.node for stay in stays}):
            query = select(outcomes).where(
                c.start >= since, type_coerce(c.nodes, Text).contains(f'"{node}"', autoescape=True)
            )
            with self._store.reading() as db:
                rows = db.execute(query.order_by(c.start.desc()).limit(_MOST)).all()
            for row in rows:
                used = dict(zip(row.nodes, row.gpus, strict=False)).get(node, ())
                if any(stay.slot in used for stay in stays if stay.node == node and _overlap(stay, row.start, row.end)):
                    number = row.job if row.array_id is None else row.array_id  # a task by its array, as samples do
                    name = f"{number}" if row.task < 0 else f"{number}_{row.task}"
                    yield CardJob(
                        row.cluster, name, row.app, float(row.start), row.end, node, sum(map(len, row.gpus)),
                        row.step_time, None,
                    )  # fmt: skip

    def _watched(self, stays: Sequence[Stay], since: float) -> Iterator[CardJob]:
        c, uuids = job_samples.c, {stay.uuid for stay in stays}
        query = select(job_samples).where(
            c.heard.in_((True, False)), c.ended_at >= since, c.node.in_({stay.node for stay in stays})
        )
        parts: dict[tuple[str, str, str], list[tuple[str | None, float, float, int, float | None]]] = {}
        with self._store.reading() as db:
            for row in db.execute(query.order_by(c.ended_at)):
                if not uuids.isdisjoint(row.gpus):
                    part = (row.app, row.begun_at, row.ended_at, row.steps, row.step_seconds)
                    parts.setdefault((row.cluster, row.job, row.node), []).append(part)
        for (cluster, job, node), mine in parts.items():
            timed = [(steps, seconds) for *_, steps, seconds in mine if seconds is not None and steps > 0]
            steps = sum(n for n, _ in timed)
            yield CardJob(
                cluster, job, mine[-1][0], mine[0][1], mine[-1][2], node, None, None,
                sum(n * seconds for n, seconds in timed) / steps if steps else None,
            )  # fmt: skip


def _overlap(stay: Stay, start: float, end: float | None) -> bool:
    return (stay.until is None or start < stay.until) and (end is None or end > stay.since)


def _start(job: CardJob) -> float:
    return job.start
