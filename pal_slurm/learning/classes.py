"""Classes of applications from what their jobs did. In: samples of jobs. Out: features and classes in the store.

An application that somebody described (pal.yaml, palctl apps set) keeps what was said. The others are clustered on the
utilisation plane together with them; one that was seen gets the class of the nearest centre.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import dist, sqrt
from statistics import fmean, median, stdev
from typing import TypeAlias

from pal_slurm.config import Config
from pal_slurm.model import App
from pal_slurm.scores.classes import Classes, Features, classify
from pal_slurm.store import AppRepo, Store
from pal_slurm.store.learned import AppFeatures, LearnedRepo
from pal_slurm.store.samples import JobSample, SampleRepo

SINCE_S = 90 * 86_400.0
MEASURED = "measured"  # the source of a class that nobody told
ALONE_ERROR = 0.05  # of a utilisation that one job alone showed
ALIKE = 0.1  # two users' jobs of one name do the same
OWN_APPS = 8  # of one user alone, that say where families lie
_Use: TypeAlias = tuple[float, float]  # compute, memory


@dataclass(frozen=True, slots=True)
class Featured:
    apps: int
    classes: int  # that changed


def learn_classes(store: Store, config: Config, now: float) -> Featured:
    """Features of every application that ran of late, and the classes that follow."""
    samples, repo = SampleRepo(store), LearnedRepo(store)
    stored = repo.features()
    found: dict[str, AppFeatures] = {}
    users: dict[str, set[str]] = {}
    seen: dict[tuple[str, str], _Use] = {}  # by user and application, as the nodes saw his jobs
    for app in samples.apps(now - SINCE_S):
        before, some = stored.get(app, AppFeatures(app, now)), samples.of_app(app, now - SINCE_S)
        found[app], users[app] = _features(before, some), {s.user for s in some}
        measured = _by_user(s for s in some if s.measured and s.user)
        seen |= {(user, app): _mean(jobs) for user, jobs in measured.items()}
    known = {app: _point(f) for app, f in (stored | found).items() if f.compute is not None and f.memory is not None}
    several = _at_most(stored | found, users)
    classes = classify({app: at for app, at in known.items() if app in several}, config.classes.names)
    changed = _set_classes(store, config, known, classes, now) if classes else 0
    if classes:
        found = {app: _with_sure(f, classes, known) for app, f in found.items()}
        repo.put_shown({key: classes.join(Features(*use)).cls for key, use in seen.items()}, now)
    repo.set_features(found.values())
    return Featured(len(found), changed)


def _features(before: AppFeatures, samples: Sequence[JobSample]) -> AppFeatures:
    """Each job of a user counts once, however long it ran; then each user, however many jobs he had."""
    users = _by_user(samples)
    if not users:
        return before
    points = [_mean(jobs) for jobs in users.values()]
    compute, memory = _agreed(before, points)
    votes = next(iter(users.values())) if len(users) == 1 else points
    return replace(
        before,
        jobs=sum(map(len, users.values())),
        compute=compute,
        memory=memory,
        compute_error=_error([c for c, _ in votes]),
        memory_error=_error([m for _, m in votes]),
        seen_at=max(s.ended_at for s in samples),
    )


def _by_user(samples: Iterable[JobSample]) -> dict[str, list[_Use]]:
    """One of each of his jobs."""
    jobs: dict[tuple[str, str, str], list[_Use]] = {}
    for s in samples:
        if s.compute is not None and s.memory is not None:
            jobs.setdefault((s.user, s.cluster, s.job), []).append((s.compute, s.memory))
    users: dict[str, list[_Use]] = {}
    for (user, *_), some in jobs.items():
        users.setdefault(user, []).append(_mean(some))
    return users


def _mean(some: Sequence[_Use]) -> _Use:
    return fmean(c for c, _ in some), fmean(m for _, m in some)


def _agreed(before: AppFeatures, points: Sequence[_Use]) -> _Use:
    """Their median; of two who differ the one that is nearer to what was known: a newcomer changes nothing."""
    if len(points) == 2 and before.compute is not None and before.memory is not None:
        was = (before.compute, before.memory)
        if dist(*points) > ALIKE:
            return min(points, key=lambda point: dist(point, was))
    return median(c for c, _ in points), median(m for _, m in points)


def _error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else ALONE_ERROR


def _at_most(found: dict[str, AppFeatures], users: dict[str, set[str]]) -> set[str]:
    """Applications that families are made of: of those that one user alone runs, his latest few."""
    kept, own = set(), dict[str, int]()
    for app in sorted(found, key=lambda app: (-found[app].seen_at, app)):
        if len(ran := users.get(app, set())) == 1:
            [user] = ran
            own[user] = own.get(user, 0) + 1
            if own[user] > OWN_APPS:
                continue
        kept.add(app)
    return kept


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
