"""What the database holds of scores before pald first looks. In: which kind (SETTINGS). Out: its rows.

Absurd ones are such as no GPU has, or too old to count: a pald that believes one of them places otherwise than without.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pal_slurm.intake.samples import STRETCH_S
from pal_slurm.learning.from_jobs import learn
from pal_slurm.model import App, Apps
from pal_slurm.store import GpuRepo, ScoreRepo, open_store
from pal_slurm.store.gpus import Sighting
from pal_slurm.store.learned import LearnedRepo
from pal_slurm.store.nights import NightRepo, ProfiledScore
from pal_slurm.store.samples import JobSample, SampleRepo
from pal_slurm.store.scores import Delivery, Score

CLASSES = ("A", "B", "C")
GPUS = 4
DAY_S = 86_400.0
GOOD = (1.3, 1.0, 1.1, 0.95)
OF_CLASS = {"A": GOOD, "B": (1.0, 1.3, 0.95, 1.1), "C": (1.0, 1.0, 1.0, 1.0)}
ABSURD = (float("inf"), 0.0, -1.0, 1e9, 1e-6)


def put_scores(kind: str, database: Path, nodes: Sequence[str], now: float) -> None:
    if kind == "none":
        return
    if kind in ("measured", "lied"):
        _measured(database, nodes, now - 2 * DAY_S)
        if kind == "lied":
            _lied(database, nodes, now - DAY_S)
        return
    places = [(node, slot) for node in nodes for slot in range(GPUS)]
    seen = [Sighting(f"GPU-{node}-{slot}", node, slot, "a100", now - DAY_S) for node, slot in places]
    made = [_score(kind, n, *place, cls, now) for n, place in enumerate(places) for cls in CLASSES]
    store = open_store(f"sqlite:///{database}")
    try:
        ScoreRepo(store).add(Delivery(kind, "fuzz", seen, (), made), now)
    finally:
        store.close()


def _score(kind: str, number: int, node: str, slot: int, cls: str, now: float) -> Score:
    # Every fourth of the absurd ones is good, and a year old.
    value, at = GOOD[number % len(GOOD)], now - DAY_S
    if kind == "classes":
        value = OF_CLASS[cls][slot]
    if kind == "absurd":
        value, at = (0.5, now - 365 * DAY_S) if number % 4 == 3 else (ABSURD[number % len(ABSURD)], at)
    return Score(f"GPU-{node}-{slot}", cls, value, 5, at)


def _uuid(node: str, slot: int) -> str:
    return f"GPU-{node}-{slot}"


def _measured(database: Path, nodes: Sequence[str], at: float) -> None:
    """The good ones, as nights measure them: with their errors."""
    store = open_store(f"sqlite:///{database}")
    try:
        places = {_uuid(node, slot): (node, slot) for node in nodes for slot in range(GPUS)}
        GpuRepo(store).see([Sighting(uuid, *place, "a100", at) for uuid, place in places.items()], at)
        cards = LearnedRepo(store).cards(places)
        made = [
            ProfiledScore(card.id, cls, s, 0.01, s - 0.02, s + 0.02, 5, 1, 0, 0, 0, s, False, at)
            for uuid, card in cards.items()
            for s in (GOOD[places[uuid][1]],) for cls in CLASSES
        ]  # fmt: skip
        NightRepo(store).write({}, made, (), {}, at)
    finally:
        store.close()


def _lied(database: Path, nodes: Sequence[str], at: float) -> None:
    """One user's jobs: those on the slowest GPUs become three times as fast, those on the fastest as slow."""
    store = open_store(f"sqlite:///{database}")
    begun = at - at % STRETCH_S
    try:
        for number, (node, slot) in enumerate(
            (n, s) for n in nodes for s in (GOOD.index(max(GOOD)), GOOD.index(min(GOOD)))
        ):
            for turn in range(2):
                pace = [0.2] * 3 + [0.2 / 3 if GOOD[slot] > 1.0 else 0.6] * 3
                job, first = f"9{number}{turn}", begun + turn * len(pace) * STRETCH_S
                shown = [
                    JobSample(
                        f"{job}-{n}", "sim", job, "net", node, (_uuid(node, slot),), first + n * STRETCH_S,
                        first + (n + 1) * STRETCH_S - 1, 100, seconds, user="u9",
                    )
                    for n, seconds in enumerate(pace)
                ]  # fmt: skip
                SampleRepo(store).add(shown)
        learn(store, Apps({"net": App("net", "A")}), begun + DAY_S / 2)
    finally:
        store.close()
