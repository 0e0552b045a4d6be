"""Runs to PM-scores. In: measured run times of one benchmark. Out: per GPU its score, and which runs were stalls.

A score is the GPU's typical run time over the median of all GPUs. A transient stall (a node that hung for one run, at
full clock and low power) must not become a lasting score: a run is a stall when it took over 1.25 times what the same
GPU's faster runs took, and the same GPU's other runs show that it can do better. Slowness in every run is lasting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

STALL = 1.25  # no measured GPU's lasting spread between its own runs comes near (Longhorn: 3.6 % typical)


@dataclass(frozen=True, slots=True)
class RunTime:
    """One run of a benchmark on one GPU."""

    gpu: str
    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GpuScore:
    node: str
    score: float
    runs: int
    stalls: int


def score_runs(runs: Iterable[RunTime]) -> Mapping[str, GpuScore]:
    """Score of every GPU, by the median of its runs that are no stalls."""
    by_gpu: dict[str, list[float]] = {}
    node_of: dict[str, str] = {}
    for run in runs:
        by_gpu.setdefault(run.gpu, []).append(run.seconds)
        node_of[run.gpu] = run.node
    typical: dict[str, float] = {}
    stalls: dict[str, int] = {}
    for gpu, seconds in by_gpu.items():
        kept, stalls[gpu] = without_stalls(seconds)
        typical[gpu] = float(np.median(kept))
    if not typical:
        return {}
    middle = float(np.median(list(typical.values())))
    return {
        gpu: GpuScore(node_of[gpu], value / middle, len(by_gpu[gpu]), stalls[gpu]) for gpu, value in typical.items()
    }


def without_stalls(seconds: list[float]) -> tuple[list[float], int]:
    """The runs that tell what the GPU lastingly does, and how many were left out."""
    ordered = sorted(seconds)
    faster = float(np.median(ordered[: max(1, (len(ordered) + 1) // 2)]))
    kept = [value for value in ordered if value <= STALL * faster]
    return kept, len(ordered) - len(kept)
