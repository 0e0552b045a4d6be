"""Hidden true speeds of the demo's GPUs. In: a seed. Out: speeds.json for the mini-cluster, scores.csv for pald.

The spread is what was measured on real V100s (medians of each GPU's runs): almost all of it between nodes, a GPU's
median at most 12 % off for convolution training (class A), 4 % for transformers (B), nothing to speak of for
memory-bound work (C). `slow cards` adds two lasting slow ones of 1.3x and 1.5x, as surveys of clusters report; `worn`
nodes run hot, 1.4x to 1.6x, as where a rack's cooling fails.
"""

from __future__ import annotations

import csv
import json
import random
import statistics
from datetime import UTC, datetime
from pathlib import Path

CLASSES = ("A", "B", "C")
NODE_SD, GPU_SD = 0.030, 0.010  # class A: between nodes, within a node
MOST = 0.12
FEELS = {"A": 1.0, "B": 0.3, "C": 0.04}  # how much of it the other classes feel
SLOW_CARDS = (1.3, 1.5)
WORN = (1.4, 1.6)

Speeds = dict[str, dict[str, dict[str, float]]]


def make(nodes: int, gpus: int, seed: int, slow_cards: bool, worn: float = 0.0) -> Speeds:
    """`worn`: that share of the nodes runs hot, all GPUs of a node alike slow."""
    rng = random.Random(seed)
    raw: dict[tuple[str, str], float] = {}
    for n in range(1, nodes + 1):
        of_node = rng.gauss(0, NODE_SD)
        for g in range(gpus):
            raw[f"n{n}", f"g{g}"] = max(-MOST, min(MOST, of_node + rng.gauss(0, GPU_SD)))
    middle = statistics.median(raw.values())
    offs = {place: value - middle for place, value in raw.items()}
    if slow_cards:
        for place, factor in zip(rng.sample(sorted(offs), len(SLOW_CARDS)), SLOW_CARDS, strict=True):
            offs[place] = factor - 1
    for node in rng.sample(sorted(f"n{n}" for n in range(1, nodes + 1)), round(worn * nodes)):
        factor = rng.uniform(*WORN)
        for g in range(gpus):
            offs[node, f"g{g}"] = factor - 1 + raw[node, f"g{g}"] - middle
    speeds: Speeds = {}
    for (node, slot), off in offs.items():
        speeds.setdefault(node, {})[slot] = {c: round(1 + off * FEELS[c], 4) for c in CLASSES}
    return speeds


def write(speeds: Speeds, speeds_file: Path, scores_file: Path) -> None:
    """The truth for the fake GPUs, and the same as an import for pald: here the profile is perfect."""
    speeds_file.write_text(json.dumps(speeds), encoding="utf-8")
    with scores_file.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["node", "slot", "uuid", "model", "class", "score", "measured_at"])
        now = datetime.now(UTC).isoformat()  # so that they are newer than those of an earlier demo on the same cluster
        for node, slots in speeds.items():
            for slot, scores in slots.items():
                for cls, score in scores.items():
                    out.writerow([node, slot[1:], f"GPU-demo-{node}-{slot}", "a100", cls, score, now])
