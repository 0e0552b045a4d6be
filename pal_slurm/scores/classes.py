"""Applications to classes. In: (compute utilisation, memory utilisation) of each application. Out: a class for each.

Published rule (PAL, SC'24): k-means on the two utilisations, K by the best silhouette. What keeps the multiprocessors
busy feels a slow GPU most; what waits for memory feels it least. So clusters are named along compute minus memory: the
most compute-bound is the first class. An application that was not clustered joins the nearest centre.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pal_slurm.model import FloatArray, IntArray

LEAST_APPS = 3  # fewer can't be clustered: each keeps the default
LEAST_SPREAD = 0.05  # of a family: its applications differ by at least that
_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Features:
    """Utilisations from 0 to 1, and their standard errors."""

    compute: float
    memory: float
    compute_error: float = 0.0
    memory_error: float = 0.0


@dataclass(frozen=True, slots=True)
class Membership:
    cls: str
    sure: float  # probability that this class is the right one rather than the next best


@dataclass(frozen=True, eq=False)
class Classes:
    """Centres on the utilisation plane, each with the name of its class."""

    names: tuple[str, ...]
    centres: FloatArray  # (K, 2)
    spread: float = LEAST_SPREAD  # how far members lie from their centre

    def join(self, features: Features) -> Membership:
        """The nearest centre, and how sure, as far as the features themselves are."""
        point = np.array([features.compute, features.memory])
        error = float(np.hypot(np.hypot(features.compute_error, features.memory_error), self.spread))
        distance = ((self.centres - point) ** 2).sum(axis=1) / error**2
        best = int(distance.argmin())
        weight = np.exp(-0.5 * (distance - distance[best]))
        by_class = dict.fromkeys(self.names, 0.0)
        for name, w in zip(self.names, weight.tolist(), strict=True):
            by_class[name] = max(by_class[name], w)
        first, second, *_ = *sorted(by_class.values(), reverse=True), 0.0
        return Membership(self.names[best], first / (first + second))


def classify(features: Mapping[str, Features], names: Sequence[str]) -> Classes | None:
    """Cluster the applications; None where there are too few to tell families apart."""
    points = np.array([[f.compute, f.memory] for f in features.values()], dtype=np.float64).reshape(-1, 2)
    distinct = np.unique(points, axis=0)
    if len(distinct) < LEAST_APPS:
        return None
    most = min(len(names), len(distinct) - 1)
    found = [kmeans(points, k) for k in range(2, most + 1)]
    labels = max(found, key=lambda labels: silhouette(points, labels)) if found else np.zeros(len(points), dtype=int)
    count = int(labels.max()) + 1
    centres = np.array([points[labels == k].mean(axis=0) for k in range(count)])
    order = np.argsort(centres[:, 1] - centres[:, 0], kind="stable")  # the most compute-bound first
    off = np.sqrt(((points - centres[labels]) ** 2).sum(axis=1).mean())
    return Classes(_spread(names, count), centres[order], max(float(off), LEAST_SPREAD))


def _spread(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Fewer clusters than classes: the ends keep their names, so that C stays the memory-bound one."""
    if count == 1:
        return (names[0],)
    return tuple(names[round(i * (len(names) - 1) / (count - 1))] for i in range(count))


def kmeans(points: FloatArray, k: int) -> IntArray:
    """Lloyd's algorithm from each point as first centre, the others farthest first; the best of all. Deterministic."""
    best, least = np.zeros(len(points), dtype=np.intp), np.inf
    for start in range(min(len(points), 50)):
        labels, cost = _lloyd(points, _farthest(points, k, start))
        if cost < least - 1e-12:
            best, least = labels, cost
    return np.unique(best, return_inverse=True)[1].reshape(-1)


def _farthest(points: FloatArray, k: int, start: int) -> FloatArray:
    chosen = [start]
    distance = ((points - points[start]) ** 2).sum(axis=1)
    while len(chosen) < k:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return points[chosen].astype(np.float64)


def _lloyd(points: FloatArray, centres: FloatArray) -> tuple[IntArray, float]:
    labels = np.full(len(points), -1)
    for _ in range(_ROUNDS):
        distance = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
        fresh = distance.argmin(axis=1)
        if (fresh == labels).all():
            break
        labels = fresh
        for c in np.unique(labels):
            centres[c] = points[labels == c].mean(axis=0)
    return labels, float(distance.min(axis=1).sum())


def silhouette(points: FloatArray, labels: IntArray) -> float:
    """Mean silhouette; a point alone in its cluster counts 0."""
    distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    members = labels[:, None] == np.arange(labels.max() + 1)[None]  # (N, K)
    size = members.sum(axis=0)
    total = distance @ members
    own = size[labels]
    inside = total[np.arange(len(points)), labels] / np.maximum(own - 1, 1)
    mean = np.where(members, np.inf, total / np.maximum(size, 1))
    outside = mean.min(axis=1)
    widest = np.maximum(inside, outside)
    marks = np.where((own > 1) & (widest > 0), (outside - inside) / np.where(widest > 0, widest, 1.0), 0.0)
    return float(marks.mean())
