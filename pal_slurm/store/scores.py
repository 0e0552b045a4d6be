"""Raw runs and the scores made of them. In: what an import or a night measured. Out: scores by the slots of a Cluster.

Runs are kept as they came; scores are derived and can be recomputed. Anything that can't be trusted counts as unknown,
and unknown means 1.0: neutral placement (P7).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, insert, select, update

from pal_slurm.model import BoolArray, Cluster, FloatArray, IntArray
from pal_slurm.store.engine import Store
from pal_slurm.store.gpus import Sighting, record_sightings
from pal_slurm.store.learned import PaceSeen, add_paces, heard_before
from pal_slurm.store.rows import columns, values
from pal_slurm.store.state import bump, mark_nights, revision
from pal_slurm.store.tables import gpu_slots, gpus, runs, scores

LEAST_SCORE, MOST_SCORE = 0.05, 50.0  # outside: a mistake of whoever measured, not a GPU
FUTURE_S = 86_400.0  # measured later than this from now: a clock is wrong


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement; `seconds` or `score` is set."""

    uuid: str
    cls: str
    measured_at: float
    app: str | None = None
    seconds: float | None = None
    score: float | None = None
    node: str | None = None
    scope: str | None = None  # node: while all GPUs of its node did the same
    driver: str | None = None
    power_cap_w: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The PM-score of one GPU for one class."""

    uuid: str
    cls: str
    score: float
    n_runs: int
    measured_at: float
    ci_low: float | None = None
    ci_high: float | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Everything that came in together; it is stored whole or not at all, and once."""

    digest: str  # SHA-256 of its bytes
    source: str
    sightings: Sequence[Sighting]
    runs: Sequence[Measurement]
    scores: Sequence[Score]
    paces: Sequence[PaceSeen] = ()


@dataclass(frozen=True, slots=True)
class Added:
    gpus: int
    runs: int
    scores: int
    kept: int  # scores that stay, because they are newer than the document's
    known_before: bool  # the very same document: nothing was changed


@dataclass(frozen=True, slots=True)
class PlacedScore:
    """A stored score, where its GPU sits now."""

    uuid: str
    model: str
    node: str
    slot: int
    cls: str
    score: float
    n_runs: int
    ci_low: float | None
    ci_high: float | None
    measured_at: float
    source: str
    nights: int | None = None  # that count
    since: int | None = None  # the first of them
    stalls: int | None = None
    node_stalls: int | None = None
    node_part: float | None = None  # the factor that all GPUs of its node share
    intermittent: bool | None = None
    profiled: float | None = None  # by the nights alone
    jobs: int | None = None  # heard since
    asked: float | None = None  # what one user's jobs say: it waits for a witness


class ScoreRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, document: Delivery, now: float) -> Added:
        """Store a document in one transaction; killed in between, nothing of it is there."""
        return self.add_all([document], now)[0]

    def add_all(self, documents: Sequence[Delivery], now: float) -> list[Added]:
        """Store documents in one transaction: all of them or none."""
        with self._store.writing() as db:
            known = _known(db, [document.digest for document in documents])
            new = {document.digest: document for document in documents if document.digest not in known}
            ids = record_sightings(db, [s for document in new.values() for s in document.sightings], now)
            added = {digest: self._add(db, document, ids, now) for digest, document in new.items()}
            if added:
                bump(db, "scores", now)  # also where no score changed: a card that moved takes its own along
        return [added.pop(d.digest, Added(0, 0, 0, 0, True)) for d in documents]

    def _add(self, db: Connection, document: Delivery, ids: Mapping[str, int], now: float) -> Added:
        _insert_runs(db, document, ids, now)
        add_paces(db, document.digest, document.paces, now)
        written, kept = _upsert_scores(db, document, ids) if document.scores else (0, 0)
        return Added(len(document.sightings), len(document.runs), written, kept, False)

    def revision(self) -> int:
        """Changes whenever a score does: as long as it stands, a table stays good (but for ageing)."""
        with self._store.reading() as db:
            return revision(db, "scores")

    def placed(self) -> list[PlacedScore]:
        """All scores of GPUs that sit somewhere, by node, slot and class."""
        query = (
            select(*columns(PlacedScore, scores, gpus, gpu_slots))
            .join_from(scores, gpus)
            .join(gpu_slots, gpu_slots.c.gpu_id == gpus.c.id)
            .where(gpu_slots.c.until.is_(None))
            .order_by(gpu_slots.c.node, gpu_slots.c.slot, scores.c.cls)
        )
        with self._store.reading() as db:
            return [PlacedScore(*row) for row in db.execute(query)]

    def aligned(
        self, cluster: Cluster, classes: tuple[str, ...], now: float, stale_after_s: float
    ) -> tuple[FloatArray, BoolArray]:
        """(class, node, slot) of a cluster: scores, and which are known; missing, stale and absurd ones are 1.0."""
        shape = (len(classes), cluster.n_nodes, cluster.width)
        score, known = np.ones(shape), np.zeros(shape, dtype=np.bool_)
        with self._store.reading() as db:
            gpu_ids, rows, columns = _devices(db, cluster)
            for c, cls in enumerate(classes):
                found = _current_scores(db, cls)
                at = np.searchsorted(gpu_ids, found[:, 0])
                at[at == gpu_ids.size] = 0
                good = _trusted(found[:, 1], found[:, 2], now, stale_after_s)
                good &= (gpu_ids[at] == found[:, 0]) if gpu_ids.size else False
                score[c, rows[at[good]], columns[at[good]]] = found[good, 1]
                known[c, rows[at[good]], columns[at[good]]] = True
        return score, known


def _trusted(score: FloatArray, measured_at: FloatArray, now: float, stale_after_s: float) -> BoolArray:
    age = now - measured_at
    with np.errstate(invalid="ignore"):
        good: BoolArray = (score >= LEAST_SCORE) & (score <= MOST_SCORE) & (age <= stale_after_s) & (age >= -FUTURE_S)
    return good


def _devices(db: Connection, cluster: Cluster) -> tuple[IntArray, IntArray, IntArray]:
    """(id, row, column) of each stored GPU that sits in a slot of this cluster, by id."""
    query = select(gpu_slots.c.gpu_id, gpu_slots.c.node, gpu_slots.c.slot).where(gpu_slots.c.until.is_(None))
    index, width = cluster.node_index, cluster.width
    found = sorted(
        (gpu_id, row, slot)
        for gpu_id, node, slot in db.execute(query)
        if (row := index.get(node)) is not None and 0 <= slot < width
    )
    array = np.array(found, dtype=np.int64).reshape(-1, 3)
    return array[:, 0], array[:, 1], array[:, 2]


def _current_scores(db: Connection, cls: str) -> FloatArray:
    """(n, 3): GPU id, score, time of measurement."""
    query = select(scores.c.gpu_id, scores.c.score, scores.c.measured_at).where(scores.c.cls == cls)
    return np.array([tuple(row) for row in db.execute(query)], dtype=np.float64).reshape(-1, 3)


def _known(db: Connection, digests: Sequence[str]) -> set[str]:
    """Which of these documents are stored; one without runs or paces is never known, and is harmless to store again."""
    found = heard_before(db, digests)
    for first in range(0, len(digests), 500):
        some = digests[first : first + 500]
        found.update(db.execute(select(runs.c.document).where(runs.c.document.in_(some)).distinct()).scalars())
    return found


def _insert_runs(db: Connection, document: Delivery, ids: Mapping[str, int], now: float) -> None:
    told = {"source": document.source, "document": document.digest}
    rows = [
        {**values(run, "uuid"), **told, "gpu_id": ids[run.uuid], "night": int(run.measured_at // 86_400), "seq": seq}
        for seq, run in enumerate(document.runs)
    ]
    if rows:
        db.execute(insert(runs), rows)
    mark_nights(db, {int(run.measured_at // 86_400) for run in document.runs if run.seconds is not None}, now)


def _upsert_scores(db: Connection, document: Delivery, ids: Mapping[str, int]) -> tuple[int, int]:
    nothing = {"jobs": 0, "profiled": None, "profiled_error": None, "profiled_at": None, "asked": None}
    rows = [{**values(s, "uuid"), **nothing, "gpu_id": ids[s.uuid], "source": document.source} for s in document.scores]
    written = put_scores(db, rows)
    return written, len(rows) - written


def put_scores(db: Connection, rows: Sequence[dict[str, Any]], remade: Collection[str] = ()) -> int:
    """Those that are not older than what is stored; how many. `remade`: sources whose scores count as older."""
    query = select(scores.c.gpu_id, scores.c.cls, scores.c.measured_at, scores.c.source)
    stored = {(gpu, cls): 0.0 if source in remade else at for gpu, cls, at, source in db.execute(query)}
    keys = [(row["gpu_id"], row["cls"]) for row in rows]
    fresh = [row for key, row in zip(keys, rows, strict=True) if key not in stored]
    changed = [
        row | {"id_": key[0], "class_": key[1]}
        for key, row in zip(keys, rows, strict=True)
        if key in stored and stored[key] <= row["measured_at"]
    ]
    if fresh:
        db.execute(insert(scores), fresh)
    if changed:
        mine = (scores.c.gpu_id == bindparam("id_")) & (scores.c.cls == bindparam("class_"))
        db.execute(update(scores).where(mine), changed)
    return len(fresh) + len(changed)
