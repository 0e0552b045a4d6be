"""Runs to PM-scores. In: measured run times of one benchmark. Out: per GPU its score, and which runs were stalls.

A score is the GPU's typical run time over the median of all GPUs. A transient stall (a node that hung for one run, at
full clock and low power) must not become a lasting score: a run is a stall when it took over 1.25 times what the same
GPU's faster runs took, and the same GPU's other runs show that it can do better. Slowness in every run is lasting.

Where runs scatter as much as GPUs differ, a score is mostly chance: `believable` pulls scores towards 1.0 by as much
as the scatter of the runs explains of the scatter of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

STALL = 1.25  # no measured GPU's lasting spread between its own runs comes near (Longhorn: 3.6 % typical)
SIGMAS = 1.96  # of a confidence interval: 95 %
LEAST_ERROR = 0.002  # no score is told to be surer than this: neighbours, weather
LEAST_RUNS = 3  # that tell how sure a score is
MEDIAN_SPREAD = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean, for normal scatter


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
    error: float  # standard error of the score; 0 where one run alone can't tell

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %; None: too few runs to tell."""
        half = SIGMAS * math.hypot(self.error, LEAST_ERROR)
        return (self.score - half, self.score + half) if self.runs >= LEAST_RUNS else None


def score_runs(runs: Iterable[RunTime]) -> Mapping[str, GpuScore]:
    """Score of every GPU, by the median of its runs that are no stalls."""
    by_gpu: dict[str, list[float]] = {}
    node_of: dict[str, str] = {}
    for run in runs:
        by_gpu.setdefault(run.gpu, []).append(run.seconds)
        node_of[run.gpu] = run.node
    kept = {gpu: without_stalls(seconds) for gpu, seconds in by_gpu.items()}
    if not kept:
        return {}
    typical = {gpu: float(np.median(seconds)) for gpu, seconds in kept.items()}
    middle = float(np.median(list(typical.values())))
    return {
        gpu: GpuScore(
            node=node_of[gpu],
            score=typical[gpu] / middle,
            runs=len(by_gpu[gpu]),
            stalls=len(by_gpu[gpu]) - len(seconds),
            error=_error(seconds) / middle,
        )
        for gpu, seconds in kept.items()
    }


def without_stalls(seconds: Iterable[float]) -> list[float]:
    """The runs that tell what the GPU lastingly does."""
    ordered = sorted(seconds)
    faster = float(np.median(ordered[: max(1, (len(ordered) + 1) // 2)]))
    return [value for value in ordered if value <= STALL * faster]


def believable(scores: Mapping[str, GpuScore]) -> Mapping[str, GpuScore]:
    """Scores pulled towards 1.0: by nothing where runs agree, wholly where GPUs differ no more than their runs do.

    A slow GPU that stands out from the scatter keeps its score: the pull is judged with it left out.
    """
    values = np.array([score.score for score in scores.values()])
    noise = float(np.mean([score.error**2 for score in scores.values()])) if scores else 0.0
    if values.size < 3 or noise == 0.0:
        return scores
    near = np.abs(values - np.median(values)) <= 5 * math.sqrt(noise) + 3 * _robust_sd(values)
    total = float(values[near].var(ddof=1)) if near.sum() > 2 else 0.0
    keep = max(0.0, 1.0 - noise / total) if total > 0 else 0.0
    return {
        gpu: replace(score, score=1.0 + keep * (score.score - 1.0)) if close else score
        for (gpu, score), close in zip(scores.items(), near.tolist(), strict=True)
    }


def _error(seconds: list[float]) -> float:
    if len(seconds) < 2:
        return 0.0
    return MEDIAN_SPREAD * float(np.std(seconds, ddof=1)) / math.sqrt(len(seconds))


def _robust_sd(values: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))
