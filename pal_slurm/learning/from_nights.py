"""Scores made anew of the nights that changed. In: marked nights in the store. Out: nights, scores and alerts there.

Kernels of one class count alike: the class's score is the mean of theirs (of logarithms). Only GPUs that were measured
in a marked night get a new score; the others keep theirs, and what they learned from jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from pal_slurm.model import IntArray
from pal_slurm.scores.combine import Scores, combine
from pal_slurm.scores.fleet import newest_shift
from pal_slurm.scores.medians import SIGMAS
from pal_slurm.scores.nights import Nights, Runs, by_night
from pal_slurm.store import Store
from pal_slurm.store.nights import Alert, KernelKey, NightRepo, NightRow, ProfiledScore, RunRow

WINDOW = 28  # nights; with a half-life of seven the oldest weighs 1/16
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Rescored:
    nights: int
    scores: int
    alerts: tuple[Alert, ...]


def rescore(store: Store, now: float, anew: bool = False) -> Rescored:
    """Bring nights and scores up to date with the runs. `anew`: all of them, from the runs alone."""
    repo = NightRepo(store)
    if anew:
        repo.mark_all(now)
    marked = repo.marked()
    if not marked:
        return Rescored(0, 0, ())
    models = repo.models()
    fresh: dict[KernelKey, list[NightRow]] = {}
    for night in sorted(marked):
        for kernel, rows in _nights_of(repo.runs_of(night), night).items():
            fresh.setdefault(kernel, []).extend(rows)
    newest = max(*marked, repo.newest())
    judged = _Judged(repo, models, newest, set(marked))
    for kernel in sorted(fresh, key=str):
        fresh[kernel] = judged.kernel(kernel, fresh[kernel])
    raised = judged.alerts(now)
    written = repo.write(fresh, judged.profiled(), raised, marked, now, anew)
    return Rescored(len(marked), written, tuple(raised))


def _nights_of(runs: Sequence[RunRow], night: int) -> dict[KernelKey, list[NightRow]]:
    """Rows of one night, by kernel."""
    by_kernel: dict[KernelKey, list[RunRow]] = {}
    for row in runs:
        by_kernel.setdefault(KernelKey(row.cls, row.app, row.scope), []).append(row)
    return {kernel: _rows(rows, night) for kernel, rows in by_kernel.items()}


def _rows(rows: Sequence[RunRow], night: int) -> list[NightRow]:
    names: dict[str, int] = {}
    gpu = np.array([row.gpu_id for row in rows], dtype=np.int64)
    node = np.array([names.setdefault(row.node, len(names)) for row in rows], dtype=np.int64)
    same = np.zeros(gpu.size, dtype=np.int64)
    seconds, at = np.array([row.seconds for row in rows]), np.array([row.measured_at for row in rows])
    made = by_night(Runs(gpu, same, node, same, seconds, at))
    node_names = list(names)
    in_order = sorted(rows, key=lambda row: row.measured_at)
    setups = {row.gpu_id: f"{row.driver}|{row.power_cap_w:g}" for row in in_order}
    return [
        NightRow(
            g, night, float(made.seconds[i]), float(made.stalled[i]), float(made.spread[i]), int(made.runs[i]),
            int(made.stalls[i]), int(made.node_stalls[i]), float(made.at[i]), node_names[made.node[i]], setups[g][:96],
        )
        for i, g in enumerate(made.gpu.tolist())
    ]  # fmt: skip


class _Judged:
    """Scores per class and model, gathered kernel by kernel."""

    def __init__(self, repo: NightRepo, models: Mapping[int, str], newest: int, marked: set[int]) -> None:
        self._repo, self._models, self._newest, self._marked = repo, models, newest, marked
        self._found: dict[tuple[str, str], list[tuple[KernelKey, Scores, set[int]]]] = {}

    def kernel(self, kernel: KernelKey, fresh: Sequence[NightRow]) -> list[NightRow]:
        """Judge one kernel; returns the fresh rows with their own night's score."""
        first = self._newest - WINDOW + 1
        rows = [row for row in self._repo.window(kernel, first, self._newest) if row.night not in self._marked]
        rows += [row for row in fresh if row.night >= first]
        by_model: dict[str, list[NightRow]] = {}
        for row in rows:
            by_model.setdefault(self._models.get(row.gpu_id, ""), []).append(row)
        levels: dict[tuple[str, int], float] = {}
        touched = {row.gpu_id for row in fresh}
        for model, mine in by_model.items():
            scores = combine(*_columns(mine))
            self._found.setdefault((kernel.cls, model), []).append((kernel, scores, touched))
            for night, level in zip(scores.level_night.tolist(), scores.level.tolist(), strict=True):
                levels[model, night] = level
        levels |= _medians([row for row in fresh if row.night < first], self._models)
        return [_with_score(row, levels.get((self._models.get(row.gpu_id, ""), row.night))) for row in fresh]

    def profiled(self) -> list[ProfiledScore]:
        result: list[ProfiledScore] = []
        for (cls, _), parts in self._found.items():
            result += _class_scores(cls, [(scores, touched) for _, scores, touched in parts])
        return result

    def alerts(self, now: float) -> list[Alert]:
        raised = []
        for (cls, model), parts in self._found.items():
            for kernel, scores, _ in parts:
                if (shift := newest_shift(scores.level_night, scores.level)) is None:
                    continue
                what = " ".join(filter(None, (model, kernel.app or f"class {cls}", _SCOPES.get(kernel.scope, ""))))
                said = (
                    f"{what}: the whole fleet was {shift} in the night of {_date(shift.night)}; scores did not change"
                )
                raised.append(
                    Alert(f"shift:{model}:{cls}:{kernel.app}:{kernel.scope}:{shift.night}", "shift", said, now)
                )
        return raised


_SCOPES = {"node": "on whole nodes"}


def _columns(rows: Sequence[NightRow]) -> tuple[Nights, IntArray]:
    columns: Any = zip(*rows, strict=True)
    of = NightRow(*columns)
    nights = Nights(
        gpu=np.array(of.gpu_id, dtype=np.int64),
        kernel=np.zeros(len(rows), dtype=np.int64),
        node=_numbers(of.node),
        night=np.array(of.night, dtype=np.int64),
        seconds=np.array(of.seconds, dtype=np.float64),
        stalled=np.array(of.stalled, dtype=np.float64),
        spread=np.array(of.spread, dtype=np.float64),
        runs=np.array(of.runs, dtype=np.int64),
        stalls=np.array(of.stalls, dtype=np.int64),
        node_stalls=np.array(of.node_stalls, dtype=np.int64),
        at=np.array(of.measured_at, dtype=np.float64),
    )
    return nights, _numbers(of.setup)


def _numbers(names: Sequence[str]) -> IntArray:
    """The same number for the same name."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def _medians(rows: Sequence[NightRow], models: Mapping[int, str]) -> dict[tuple[str, int], float]:
    """Levels of nights that are too old to count in a score: plain medians."""
    groups: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        groups.setdefault((models.get(row.gpu_id, ""), row.night), []).append(row.seconds)
    return {key: float(np.log(np.median(seconds))) for key, seconds in groups.items()}


def _with_score(row: NightRow, level: float | None) -> NightRow:
    return row if level is None else row._replace(score=float(row.seconds / np.exp(level)))


def _class_scores(cls: str, parts: Sequence[tuple[Scores, set[int]]]) -> list[ProfiledScore]:
    """One score per GPU of a model: the mean of the kernels that it ran, brought back to a median of 1.0."""
    places: dict[int, list[tuple[Scores, int]]] = {}
    touched = set().union(*(gpus for _, gpus in parts))
    for scores, _ in parts:
        for i, gpu in enumerate(scores.gpu.tolist()):
            places.setdefault(gpu, []).append((scores, i))
    log = {gpu: float(np.mean([s.log[i] for s, i in at])) for gpu, at in places.items()}
    middle = float(np.median(list(log.values())))
    return [_profiled(cls, gpu, log[gpu] - middle, at) for gpu, at in places.items() if gpu in touched]


def _profiled(cls: str, gpu: int, log: float, at: Sequence[tuple[Scores, int]]) -> ProfiledScore:
    error = float(np.sqrt(sum(s.error[i] ** 2 for s, i in at))) / len(at)
    return ProfiledScore(
        gpu_id=gpu,
        cls=cls,
        score=float(np.exp(log)),
        error=error,
        ci_low=float(np.exp(log - SIGMAS * error)),
        ci_high=float(np.exp(log + SIGMAS * error)),
        n_runs=sum(int(s.runs[i]) for s, i in at),
        nights=max(int(s.nights[i]) for s, i in at),
        since=max(int(s.since[i]) for s, i in at),
        stalls=sum(int(s.stalls[i]) for s, i in at),
        node_stalls=sum(int(s.node_stalls[i]) for s, i in at),
        node_part=float(np.exp(np.mean([s.node_log[i] for s, i in at]))),
        intermittent=any(bool(s.intermittent[i]) for s, i in at),
        measured_at=max(float(s.at[i]) for s, i in at),
    )


def _date(night: int) -> str:
    return date.fromordinal(_EPOCH + night).isoformat()
