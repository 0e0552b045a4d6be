"""How fast applications are on each GPU model. In: what was told, what jobs and nights showed. Out: speeds, doubts.

What is known of two models is an edge between them: how much longer (log) a step takes on one, and how far off that may
be. Told in pal.yaml; shown by the application's own jobs, by jobs of its class, by the nightly kernels of its class;
and a weak belief that models are alike. All edges together are solved at once: each source is as heavy as it is sure,
so a few observations are shrunk towards what the next source says.

Whose word counts: a user's own jobs for his own jobs; of others only the median of USERS or more, so that nobody makes
another's rates wrong by what he reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import exp, fsum, log, sqrt
from statistics import median
from typing import NamedTuple

import numpy as np

from pal_slurm.model import TOLD, App, Apps, FloatArray, RatedApp, Trust

USERS = 3
TOLD_VAR = 1e-8
STEP_VAR = 0.05**2  # between a user's jobs of one application, beyond what their own doubt says
RUN_VAR = 0.5**2  # of one run time of a repeated job: what it was given to do differs
LEAST_RUNS = 3  # on each of two models
CLASS_VAR = 0.3**2  # from one application of a class to another
FLEET_VAR = 0.5**2  # from a kernel to an application
NONE_VAR = 1.0
ORDER = ("told", "app", "runs", "class", "fleet", "none")  # the surest first
NOTHING = Trust(round(exp(sqrt(NONE_VAR)) - 1, 4), "none")
MOST_LOG = 7.0  # models differ by a factor of a thousand: nobody measured that

Pair = tuple[str, str]


class Edge(NamedTuple):
    """Log step time on the second model over that on the first."""

    models: Pair
    apart: float
    var: float
    source: str


@dataclass(frozen=True)
class RatesShown:
    """What one user's jobs of one application showed."""

    edges: tuple[Edge, ...] = ()
    levels: Mapping[str, float] = field(default_factory=dict)  # log seconds per step by model


@dataclass(frozen=True)
class RateEvidence:
    jobs: Mapping[str, Mapping[str, RatesShown]] = field(default_factory=dict)  # by application, by user
    nights: Mapping[str, tuple[Edge, ...]] = field(default_factory=dict)  # by class


def complete(apps: Apps, models: Sequence[str], evidence: RateEvidence) -> Apps:
    """The same applications with a speed for every model of which anything is known; one model: as they are."""
    if len(models) < 2:
        return apps
    book = RateSources(apps, models, evidence)
    known = {name: book.rated(app) for name, app in apps.known.items()}
    own = {(user, name): book.rated(apps.known[name], user) for user, name in book.users()}
    return Apps(known, book.rated(apps.default), own)


class RateSources:
    """All that is known, for one set of models."""

    def __init__(self, apps: Apps, models: Sequence[str], evidence: RateEvidence) -> None:
        self._apps, self._models, self._evidence = apps, tuple(models), evidence
        self._of_class: dict[tuple[str, str], tuple[Edge, ...]] = {}  # by class, and which application is left out
        self._none = tuple(Edge((models[0], m), 0.0, NONE_VAR, "none") for m in models[1:])

    def users(self) -> Iterator[tuple[str, str]]:
        """Who has shown something of his own, of an application whose speeds are not told."""
        for name, users in self._evidence.jobs.items():
            app = self._apps.known.get(name)
            if app is not None and not set(self._models) <= app.base.keys():
                yield from ((user, name) for user, shown in users.items() if user and shown.edges)

    def rated(self, app: App, user: str = "") -> App:
        told = tuple(_told(app, self._models))
        shown = self._evidence.jobs.get(app.name, {})
        own = shown[user].edges if user in shown else ()
        others = tuple(_agreed([seen for who, seen in shown.items() if who != user]))
        nights = self._evidence.nights.get(app.cls, ())
        every = (*told, *own, *others, *self._class(app), *nights)
        edges = [edge for edge in every if set(edge.models) <= set(self._models)]
        if set(self._models) <= app.base.keys() or not edges:
            return app
        if all(edge.source == "told" for edge in edges):
            return self._with_mean(app)
        return self._solved(app, [*edges, *self._none], shown.get(user))

    def _with_mean(self, app: App) -> App:
        """Nothing is known of the models that nobody told of: they count as the mean of those that were."""
        told = [app.base[model] for model in self._models if model in app.base]
        mean = exp(fsum(map(log, told)) / len(told))
        trusts = {m: TOLD if m in app.base else NOTHING for m in self._models}
        return _app(app, {m: app.base.get(m, mean) for m in self._models}, trusts)

    def _solved(self, app: App, edges: Sequence[Edge], own: RatesShown | None) -> App:
        x, covariance = _solve(self._models, edges)
        best = int(x.argmin())
        trusts = {}
        for i, model in enumerate(self._models):
            if model in app.base:
                trusts[model] = TOLD
                continue
            var = covariance[i, i] + covariance[best, best] - 2 * covariance[i, best]
            source = min((e.source for e in edges if model in e.models), key=ORDER.index)
            trusts[model] = Trust(round(exp(sqrt(max(var, 0.0))) - 1, 4), source)
        level = self._level(app, x, own)
        base = {m: app.base.get(m, exp(level + float(x[i]))) for i, m in enumerate(self._models)}
        return _app(app, base, trusts)

    def _level(self, app: App, x: FloatArray, own: RatesShown | None) -> float:
        """What makes seconds of it: its own told or shown step times; else a step on the mean model is a second."""
        known = {m: log(base) for m, base in app.base.items()} or (dict(own.levels) if own is not None else {})
        if not known:
            users = self._evidence.jobs.get(app.name, {}).values()
            said = {m: [shown.levels[m] for shown in users if m in shown.levels] for m in self._models}
            known = {m: median(of) for m, of in said.items() if len(of) >= USERS}
        offs = [known[m] - float(x[i]) for i, m in enumerate(self._models) if m in known]
        return fsum(offs) / len(offs) if offs else -float(x.mean())

    def _class(self, app: App) -> tuple[Edge, ...]:
        """What the other applications of its class tell; most tell nothing, and needn't be left out."""
        tells = app.base or app.name in self._evidence.jobs
        key = (app.cls, app.name if tells else "")
        if key not in self._of_class:
            self._of_class[key] = tuple(self._class_edges(*key))
        return self._of_class[key]

    def _class_edges(self, cls: str, but: str) -> Iterator[Edge]:
        """What models are to applications of the class: those that are told, else what several users' jobs show."""
        told: dict[Pair, list[float]] = defaultdict(list)
        said: dict[Pair, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for name, app in self._apps.known.items():
            if app.cls != cls or name == but:
                continue
            for edge in _told(app, self._models):
                told[edge.models].append(edge.apart)
            for user, shown in self._evidence.jobs.get(name, {}).items():
                for edge in shown.edges:
                    said[edge.models][user].append(edge.apart)
        for pair in told.keys() | said.keys():
            votes = told.get(pair) or [median(of) for of in said[pair].values()]
            if pair in told or len(votes) >= USERS:
                yield Edge(pair, median(votes), CLASS_VAR + _spread(votes), "class")


def _app(app: App, base: Mapping[str, float], trusts: Mapping[str, Trust]) -> App:
    return RatedApp(app.name, app.cls, dict(base), app.comm, app.unlinked, app.shown, dict(trusts))


def _told(app: App, models: Sequence[str]) -> Iterator[Edge]:
    there = [model for model in models if model in app.base]
    for model in there[1:]:
        yield Edge((there[0], model), log(app.base[model] / app.base[there[0]]), TOLD_VAR, "told")


def _agreed(others: Iterable[RatesShown]) -> Iterator[Edge]:
    """Medians of what enough users' jobs show, one vote each, however many sizes their jobs have."""
    said: dict[tuple[Pair, str], list[Edge]] = defaultdict(list)
    for shown in others:
        mine: dict[tuple[Pair, str], list[Edge]] = defaultdict(list)
        for edge in shown.edges:
            mine[edge.models, edge.source].append(edge)
        for (pair, source), edges in mine.items():
            said[pair, source].append(Edge(pair, *_middle(edges), source))
    for (pair, source), edges in said.items():
        if len(edges) >= USERS:
            apart, var = _middle(edges)
            yield Edge(pair, apart, var + _spread([edge.apart for edge in edges]), source)


def _middle(edges: Sequence[Edge]) -> tuple[float, float]:
    return median(edge.apart for edge in edges), median(edge.var for edge in edges)


def _spread(values: Sequence[float]) -> float:
    """Squared, by the median distance from the median: one that is far off does not count."""
    middle = median(values)
    return (1.5 * median(abs(value - middle) for value in values)) ** 2


def _solve(models: Sequence[str], edges: Sequence[Edge]) -> tuple[FloatArray, FloatArray]:
    """(log step times, less that on the first model; their covariance), by weighted least squares."""
    index, n = {model: i for i, model in enumerate(models)}, len(models)
    precision, pull = np.zeros((n, n)), np.zeros(n)
    precision[0, 0] += 1.0 / TOLD_VAR  # the first is the zero
    for (a, b), apart, var, _ in edges:
        i, j, weight = index[a], index[b], 1.0 / max(var, TOLD_VAR)
        precision[[i, j], [i, j]] += weight
        precision[[i, j], [j, i]] -= weight
        pull[[i, j]] += weight * apart * np.array([-1.0, 1.0])
    covariance = np.linalg.inv(precision)
    return covariance @ pull, covariance


def edges_between(levels: Mapping[str, tuple[float, float]], source: str) -> Iterator[Edge]:
    """All pairs of models that were seen: (mean, variance) of log seconds on each."""
    for a, b in combinations(sorted(levels), 2):
        apart = levels[b][0] - levels[a][0]
        if abs(apart) <= MOST_LOG:
            yield Edge((a, b), apart, levels[a][1] + levels[b][1], source)
