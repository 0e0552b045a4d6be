"""Rows of a score file as what the store takes. In: entries, known apps, who sits where. Out: Document.

A GPU without a UUID is the card that is known to sit in its slot, else a stand-in for that slot; once the card's own
UUID is seen there, the stand-in gives way, and the card inherits nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from pal_slurm.cli.score_file import Entry
from pal_slurm.errors import BadInput
from pal_slurm.model import Apps
from pal_slurm.scores.ratios import Ratio, pm_scores
from pal_slurm.store import Delivery, Measurement, Score, Sighting, Stay


def document_of(
    entries: Sequence[Entry], data: bytes, name: str, apps: Apps, stays: Iterable[Stay], now: float
) -> Delivery:
    cards = {(stay.node, stay.slot): stay for stay in stays}
    uuids = {(e.node, e.slot): e.uuid for e in entries if e.uuid}
    for e in entries:
        place = (e.node, e.slot)
        uuids.setdefault(place, cards[place].uuid if place in cards else f"at-{e.node}-{e.slot}")
    models = {(e.node, e.slot): e.model for e in entries if e.model}
    sightings = [Sighting(uuid, *place, models.get(place, "")) for place, uuid in uuids.items()]
    classes = _classes(entries, name, apps)
    known_models = {
        uuids[place]: models.get(place) or (cards[place].model if place in cards else "") for place in uuids
    }
    return Delivery(
        digest=hashlib.sha256(data).hexdigest(),
        source="import",
        sightings=sightings,
        runs=_runs(entries, uuids, classes, now),
        scores=_scores(entries, uuids, classes, known_models, now),
    )


def _classes(entries: Sequence[Entry], name: str, apps: Apps) -> list[str]:
    """The class of each row: as told, else that of its application."""
    unknown = sorted({e.app for e in entries if not e.cls and e.app not in apps.known})
    if unknown:
        line = next(e.line for e in entries if e.app == unknown[0])
        raise BadInput(
            f"{name}:{line}: app: nobody said which class {', '.join(unknown[:5])} belongs to; "
            f"run first: palctl apps set {unknown[0]}=A\nnothing was imported; stored scores are untouched"
        )
    return [e.cls or apps.known[e.app].cls for e in entries]


def _runs(
    entries: Sequence[Entry], uuids: Mapping[tuple[str, int], str], classes: Sequence[str], now: float
) -> list[Measurement]:
    runs: list[Measurement] = []
    for e, cls in zip(entries, classes, strict=True):
        uuid, at, app = uuids[(e.node, e.slot)], e.measured_at or now, e.app or None
        if e.score is not None:
            runs.append(Measurement(uuid, cls, at, app, score=e.score, node=e.node))
        runs += [Measurement(uuid, cls, at, app, seconds=s, node=e.node) for s in e.seconds]
    return runs


def _scores(
    entries: Sequence[Entry],
    uuids: Mapping[tuple[str, int], str],
    classes: Sequence[str],
    models: Mapping[str, str],
    now: float,
) -> list[Score]:
    """One score per GPU and class: the median over the applications of that class."""
    timed: dict[tuple[str, str, str], dict[str, tuple[float, ...]]] = {}
    found: dict[tuple[str, str], list[Ratio]] = {}
    newest: dict[tuple[str, str], float] = {}
    for e, cls in zip(entries, classes, strict=True):
        uuid = uuids[(e.node, e.slot)]
        newest[uuid, cls] = max(newest.get((uuid, cls), 0.0), e.measured_at or now)
        if e.score is not None:
            found.setdefault((uuid, cls), []).append(Ratio(e.score, 1, None, None))
        else:
            timed.setdefault((cls, e.app, models[uuid]), {})[uuid] = e.seconds
    for (cls, _, _), peers in timed.items():
        for uuid, ratio in pm_scores(peers).items():
            found.setdefault((uuid, cls), []).append(ratio)
    return [_score(uuid, cls, ratios, newest[uuid, cls]) for (uuid, cls), ratios in found.items()]


def _score(uuid: str, cls: str, ratios: Sequence[Ratio], at: float) -> Score:
    low, high = ratios[0].ci_low, ratios[0].ci_high
    if len(ratios) > 1:
        low = high = None
    return Score(uuid, cls, median(r.score for r in ratios), sum(r.n_runs for r in ratios), at, low, high)
