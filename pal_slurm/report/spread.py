"""How much is known, and how scores are spread. In: GPUs with their marks. Out: coverage, quantiles, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.report.figures import Bar, Coverage, Gpu, Histogram, ScoreSpread, State

SLOW = 1.10  # what a job's owner would notice
LEAST, MOST = 0.50, 2.00  # a histogram's ends; one broken card must not squeeze the others into one bar
BARS = 60
_WIDTHS = (0.01, 0.02, 0.05)


def coverage(gpus: Sequence[Gpu], classes: Sequence[str]) -> tuple[Coverage, ...]:
    found = []
    for cls in classes:
        states = [gpu.marks[cls].state for gpu in gpus]
        found.append(Coverage(cls, *(states.count(state) for state in (State.FRESH, State.STALE, State.NEVER))))
    return tuple(found)


def spreads(gpus: Sequence[Gpu], classes: Sequence[str]) -> tuple[ScoreSpread, ...]:
    groups: dict[tuple[str, str], list[float]] = {}
    for cls in classes:
        for gpu in gpus:
            if (score := fresh(gpu, cls)) is not None:
                groups.setdefault((cls, gpu.model), []).append(score)
    return tuple(_spread(cls, model, np.array(values)) for (cls, model), values in groups.items())


def fresh(gpu: Gpu, cls: str) -> float | None:
    mark = gpu.marks[cls]
    return mark.score if mark.state is State.FRESH else None


def _spread(cls: str, model: str, values: FloatArray) -> ScoreSpread:
    low, middle, high = (float(q) for q in np.quantile(values, (0.05, 0.5, 0.95)))
    return ScoreSpread(cls, model, values.size, low, middle, high, float(values.max()), float((values > SLOW).mean()))


def histograms(gpus: Sequence[Gpu], classes: Sequence[str]) -> tuple[Histogram, ...]:
    """One per class, over the same range, so that they can be compared."""
    values = {cls: np.array([s for gpu in gpus if (s := fresh(gpu, cls)) is not None]) for cls in classes}
    every = np.concatenate(list(values.values())) if values else np.zeros(0)
    if not every.size:
        return ()
    least = max(LEAST, min(0.9, float(every.min())))
    most = min(MOST, max(1.1, float(every.max())))
    width = next((w for w in _WIDTHS if (most - least) / w <= BARS), _WIDTHS[-1])
    # Bars are centred on multiples of their width: 1.0 is the middle of one
    first, last = floor(least / width + 0.5), ceil(most / width - 0.5)
    edges = (np.arange(first, last + 2) - 0.5) * width
    return tuple(_histogram(cls, values[cls], edges) for cls in classes if values[cls].size)


def _histogram(cls: str, values: FloatArray, edges: FloatArray) -> Histogram:
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    bars = tuple(
        Bar(round(float(low), 4), round(float(high), 4), int(n))
        for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True)
    )
    below, above = int((values < edges[0]).sum()), int((values > edges[-1]).sum())
    return Histogram(cls, values.size, below, above, bars)
