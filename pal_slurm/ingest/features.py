"""Classes of applications from what their jobs did. In: samples of jobs. Out: features and classes in the store.

An application that somebody described (pal.yaml, palctl apps set) keeps what was said. The others are clustered on the
utilisation plane together with them; one that was seen gets the class of the nearest centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev

from pal_slurm.config import Config
from pal_slurm.model import App
from pal_slurm.scores.classes import Classes, Features, classify
from pal_slurm.store import AppRepo, Store
from pal_slurm.store.learned import AppFeatures, LearnedRepo
from pal_slurm.store.samples import JobSample, SampleRepo

SINCE_S = 90 * 86_400.0
MEASURED = "measured"  # the source of a class that nobody told
ALONE_ERROR = 0.05  # of a utilisation that one job alone showed


@dataclass(frozen=True, slots=True)
class Featured:
    apps: int
    classes: int  # that changed


def learn_classes(store: Store, config: Config, now: float) -> Featured:
    """Features of every application that ran of late, and the classes that follow."""
    samples, repo = SampleRepo(store), LearnedRepo(store)
    stored = repo.features()
    found: dict[str, AppFeatures] = {}
    for app in samples.apps(now - SINCE_S):
        before = stored.get(app, AppFeatures(app, now))
        found[app] = _features(before, samples.of_app(app, now - SINCE_S))
    known = {app: _point(f) for app, f in (stored | found).items() if f.compute is not None and f.memory is not None}
    classes = classify(known, config.classes.names)
    changed = _set_classes(store, config, known, classes, now) if classes else 0
    if classes:
        found = {app: _with_sure(f, classes, known) for app, f in found.items()}
    repo.set_features(found.values())
    return Featured(len(found), changed)


def _features(before: AppFeatures, samples: Sequence[JobSample]) -> AppFeatures:
    """Each job counts once, however long it ran."""
    jobs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for s in samples:
        if s.compute is not None and s.memory is not None:
            jobs.setdefault((s.cluster, s.job), []).append((s.compute, s.memory))
    if not jobs:
        return before
    compute = [fmean(c for c, _ in some) for some in jobs.values()]
    memory = [fmean(m for _, m in some) for some in jobs.values()]
    return replace(
        before,
        jobs=len(jobs),
        compute=fmean(compute),
        memory=fmean(memory),
        compute_error=_error(compute),
        memory_error=_error(memory),
        seen_at=max(s.ended_at for s in samples),
    )


def _error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else ALONE_ERROR


def _point(f: AppFeatures) -> Features:
    return Features(f.compute or 0.0, f.memory or 0.0, f.compute_error or 0.0, f.memory_error or 0.0)


def _with_sure(f: AppFeatures, classes: Classes, known: dict[str, Features]) -> AppFeatures:
    return replace(f, sure=classes.join(known[f.app]).sure) if f.app in known else f


def _set_classes(store: Store, config: Config, known: dict[str, Features], classes: Classes, now: float) -> int:
    repo = AppRepo(store)
    stored, told = repo.all(), config.known_apps().known
    fresh = []
    for app, features in known.items():
        entry = stored.get(app)
        if app in told or (entry is not None and entry.source != MEASURED):
            continue
        cls = classes.join(features).cls
        if entry is None:
            fresh.append(App(app, cls))
        elif entry.app.cls != cls:
            fresh.append(replace(entry.app, cls=cls))
    repo.set(fresh, MEASURED, now)
    return len(fresh)
