"""What the database holds of scores before pald first looks. In: none, good, absurd. Out: rows of an import.

Absurd ones are such as no GPU has, or too old to count: a pald that believes one of them places otherwise than without.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pal_slurm.store import ScoreRepo, open_store
from pal_slurm.store.gpus import Sighting
from pal_slurm.store.scores import Delivery, Score

CLASSES = ("A", "B", "C")
GPUS = 4
DAY_S = 86_400.0
GOOD = (1.3, 1.0, 1.1, 0.95)
ABSURD = (float("inf"), 0.0, -1.0, 1e9, 1e-6)


def put_scores(kind: str, database: Path, nodes: Sequence[str], now: float) -> None:
    if kind == "none":
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
    if kind == "absurd":
        value, at = (0.5, now - 365 * DAY_S) if number % 4 == 3 else (ABSURD[number % len(ABSURD)], at)
    return Score(f"GPU-{node}-{slot}", cls, value, 5, at)
