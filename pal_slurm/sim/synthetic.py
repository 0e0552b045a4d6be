"""Workloads and clusters out of thin air, by seed. In: a few numbers. Out: a Workload; true scores of a cluster.

So everything runs with no download. Sizes are those of the Philly trace, run times those of Gavel's and Synergy's
generators (80 % of 60 * 10^U(1.5, 3) s, 20 % of 60 * 10^U(3, 4) s), the spread of scores is correlated within nodes
as measured on real V100 nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pal_slurm.errors import BadInput
from pal_slurm.model import App
from pal_slurm.sim.traces.reading import MAX_JOBS, Options
from pal_slurm.sim.workload import Work, Workload, workload

# share of each size among the 82,247 jobs of philly.csv
PHILLY_SIZES: Mapping[int, float] = {1: 0.910, 2: 0.009, 4: 0.040, 8: 0.037, 16: 0.004}
# standard deviation of log(score) per class: Longhorn's ResNet-50, BERT, PageRank medians
CLASS_SPREAD: Mapping[str, float] = {"A": 0.030, "B": 0.012, "C": 0.001}
NODE_SHARE = 0.9  # of the variance lies between nodes


@dataclass(frozen=True, slots=True)
class Recipe:
    """`synthetic:jobs=500,per_hour=12,arrivals=diurnal` names these."""

    jobs: int = 500
    per_hour: float = 12.0
    arrivals: str = "poisson"  # or diurnal: a day's rhythm, quietest at 4 in the morning
    most_gpus: int = 16
    shortest_min: float = 31.6
    longest_min: float = 10_000.0
    class_a: float = 0.5  # share of jobs of class A; the rest are B and C alike


ARRIVALS = ("poisson", "diurnal")
_RANGES = {
    "jobs": (1, MAX_JOBS), "per_hour": (1e-3, 1e9), "most_gpus": (1, 1_000_000), "class_a": (0.0, 1.0),
    "shortest_min": (1e-4, 1e7), "longest_min": (1e-4, 1e7),
}  # fmt: skip
_DEFAULTS: Mapping[str, int | float | str] = asdict(Recipe())


def parse_recipe(text: str) -> Recipe:
    """The recipe in `synthetic[:key=value,...]`."""
    known: dict[str, type[int] | type[float] | type[str]] = {name: type(value) for name, value in _DEFAULTS.items()}
    values: dict[str, int | float | str] = {}
    for item in filter(None, text.partition(":")[2].split(",")):
        key, _, raw = item.partition("=")
        if key not in known:
            raise BadInput(f"{text[:200]}: {key[:40]!r} is none of {', '.join(known)}.")
        try:
            values[key] = known[key](raw)
        except ValueError:
            raise BadInput(f"{text[:200]}: {key} must be a number, not {raw[:40]!r}.") from None
    recipe = Recipe(**values)  # type: ignore[arg-type]  # each was converted to its field's type
    for key, (least, most) in _RANGES.items():
        value = getattr(recipe, key)
        if not least <= value <= most:  # nan is neither
            shown = f"{value:g}" if abs(value) < 1e300 else str(value)[:40]  # beyond what a float holds
            raise BadInput(f"{text[:200]}: {key}={shown} must be {least:g} to {most:,.12g}.")
    if recipe.arrivals not in ARRIVALS:
        raise BadInput(f"{text[:200]}: arrivals={recipe.arrivals[:40]!r} must be one of {', '.join(ARRIVALS)}.")
    if recipe.shortest_min > recipe.longest_min:
        raise BadInput(
            f"{text[:200]}: shortest_min={recipe.shortest_min:g} must be at most longest_min={recipe.longest_min:g}."
        )
    return recipe


def synthetic_workload(recipe: Recipe, options: Options, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    n = recipe.jobs
    submits = _arrivals(rng, recipe)
    sizes = [size for size in PHILLY_SIZES if size <= recipe.most_gpus]
    shares = np.array([PHILLY_SIZES[size] for size in sizes])
    gpus = rng.choice(sizes, size=n, p=shares / shares.sum())
    exponent = np.where(rng.random(n) < 0.8, rng.uniform(1.5, 3.0, n), rng.uniform(3.0, 4.0, n))
    seconds = np.clip(60.0 * 10.0**exponent, 60 * recipe.shortest_min, 60 * recipe.longest_min)
    rest = (1.0 - recipe.class_a) / 2
    classes = rng.choice(["A", "B", "C"], size=n, p=[recipe.class_a, rest, rest])
    apps = {cls: App(f"synthetic-{cls}", cls, {"gpu": 1.0}, options.comm) for cls in "ABC"}
    factor = options.limit_factor
    works = (
        Work(i, float(submits[i]), int(gpus[i]), s, apps[str(classes[i])], None if factor is None else factor * s)
        for i, s in enumerate(seconds.tolist())
    )
    return workload(works)


def _arrivals(rng: np.random.Generator, recipe: Recipe) -> NDArray[np.float64]:
    rate = recipe.per_hour / 3600
    if recipe.arrivals == "poisson":
        return np.cumsum(rng.exponential(1 / rate, recipe.jobs))
    # thinning: at most twice the mean rate, cosine over the day
    kept: list[float] = []
    at = 0.0
    while len(kept) < recipe.jobs:
        at += float(rng.exponential(0.5 / rate))
        if rng.random() < 0.5 * (1 - math.cos(2 * math.pi * (at / 3600 - 4) / 24)):
            kept.append(at)
    return np.array(kept)


def synthetic_scores(
    nodes: int, width: int, seed: int, classes: tuple[str, ...] = ("A", "B", "C"), slow_cards: int = 0
) -> NDArray[np.float64]:
    """(class, node, slot): log-normal around a median of 1, most of the variance between nodes.

    `slow_cards`: so many lasting slow GPUs of 1.3x to 1.5x in every class, as surveys report them.
    """
    rng = np.random.default_rng([seed, 7])
    out = np.ones((len(classes), nodes, width))
    for c, cls in enumerate(classes):
        sd = CLASS_SPREAD.get(cls, CLASS_SPREAD["B"])
        node = rng.normal(0.0, sd * math.sqrt(NODE_SHARE), (nodes, 1))
        out[c] = np.exp(node + rng.normal(0.0, sd * math.sqrt(1 - NODE_SHARE), (nodes, width)))
        out[c] /= np.median(out[c])
    for g in rng.choice(nodes * width, size=min(slow_cards, nodes * width), replace=False).tolist():
        out[:, g // width, g % width] *= rng.uniform(1.3, 1.5)
    return out
