"""Rows of a score file as scores. In: entries, known apps, who sits where. Out: scores by place; a Delivery.

A GPU without a UUID is the card that is known to sit in its slot, else a stand-in for that slot; once the card's own
UUID is seen there, the stand-in gives way, and the card inherits nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from pal_slurm.errors import BadInput
from pal_slurm.intake.inputs import read_input
from pal_slurm.intake.score_file import Entry, read_scores
from pal_slurm.model import Apps
from pal_slurm.scores import RunTime, score_runs
from pal_slurm.store import Delivery, Measurement, Score, Sighting, Stay

Place: TypeAlias = tuple[str, int]  # node, slot


@dataclass(frozen=True, slots=True)
class FileScore:
    """What a file says of one GPU for one class."""

    score: float
    n_runs: int
    interval: tuple[float, float] | None


def scores_by_place(
    entries: Sequence[Entry], classes: Sequence[str], models: Mapping[Place, str]
) -> dict[tuple[Place, str], FileScore]:
    """One score per GPU and class: the median over the applications of that class. Run times are held against those of
    the same model and application; `classes`: of each row."""
    timed: dict[tuple[str, str, str], dict[str, tuple[Place, Sequence[float]]]] = {}
    found: dict[tuple[Place, str], list[FileScore]] = {}
    for e, cls in zip(entries, classes, strict=True):
        if e.score is not None:
            found.setdefault((e.place, cls), []).append(FileScore(e.score, 1, None))
        else:
            timed.setdefault((cls, e.app, models.get(e.place, "")), {})[f"{e.node}:{e.slot}"] = e.place, e.seconds
    for (cls, _, _), peers in timed.items():
        runs = (RunTime(gpu, place[0], s) for gpu, (place, seconds) in peers.items() for s in seconds)
        for gpu, made in score_runs(runs).items():
            found.setdefault((peers[gpu][0], cls), []).append(FileScore(made.score, made.runs, made.interval))
    return {
        key: FileScore(
            median(s.score for s in several),
            sum(s.n_runs for s in several),
            several[0].interval if len(several) == 1 else None,
        )
        for key, several in found.items()
    }


def placed_scores(name: str, apps: Apps, classes: tuple[str, ...] = ()) -> dict[Place, dict[str, float]]:
    """What a file that is given as --scores says of each GPU: its score by class."""
    entries = read_scores(read_input(name), name, classes)
    models = {e.place: e.model for e in entries if e.model}
    placed: dict[Place, dict[str, float]] = {e.place: {} for e in entries}
    for (place, cls), found in scores_by_place(entries, classes_of(entries, name, apps), models).items():
        placed[place][cls] = found.score
    return placed


def classes_of(entries: Sequence[Entry], name: str, apps: Apps) -> list[str]:
    """The class of each row: as told, else that of its application."""
    unknown = sorted({e.app for e in entries if not e.cls and e.app not in apps.known})
    if unknown:
        line = next(e.line for e in entries if e.app == unknown[0])
        raise BadInput(
            f"{name}:{line}: app: nobody said which class {', '.join(unknown[:5])} belongs to; "
            f"run first: palctl apps set {unknown[0]}=A"
        )
    return [e.cls or apps.known[e.app].cls for e in entries]


def document_of(
    entries: Sequence[Entry], data: bytes, name: str, apps: Apps, stays: Iterable[Stay], now: float
) -> Delivery:
    cards = {(stay.node, stay.slot): stay for stay in stays}
    uuids = {e.place: e.uuid for e in entries if e.uuid}
    for e in entries:
        uuids.setdefault(e.place, cards[e.place].uuid if e.place in cards else f"at-{e.node}-{e.slot}")
    told = {e.place: e.model for e in entries if e.model}
    models = {place: told.get(place) or (cards[place].model if place in cards else "") for place in uuids}
    classes = classes_of(entries, name, apps)
    newest: dict[tuple[Place, str], float] = {}
    for e, cls in zip(entries, classes, strict=True):
        newest[e.place, cls] = max(newest.get((e.place, cls), 0.0), e.measured_at or now)
    return Delivery(
        digest=hashlib.sha256(data).hexdigest(),
        source="import",
        sightings=[Sighting(uuid, *place, told.get(place, "")) for place, uuid in uuids.items()],
        runs=_runs(entries, uuids, classes, now),
        scores=[
            Score(uuids[place], cls, s.score, s.n_runs, newest[place, cls], *(s.interval or (None, None)))
            for (place, cls), s in scores_by_place(entries, classes, models).items()
        ],
    )


def _runs(
    entries: Sequence[Entry], uuids: Mapping[Place, str], classes: Sequence[str], now: float
) -> list[Measurement]:
    runs: list[Measurement] = []
    for e, cls in zip(entries, classes, strict=True):
        uuid, at, app = uuids[e.place], e.measured_at or now, e.app or None
        if e.score is not None:
            runs.append(Measurement(uuid, cls, at, app, score=e.score, node=e.node))
        runs += [Measurement(uuid, cls, at, app, seconds=s, node=e.node) for s in e.seconds]
    return runs
