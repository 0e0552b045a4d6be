"""What distance costs applications of which nobody told it. In: applications, what users' jobs showed. Out: the same.

One node and several are to a span what two GPU models are to a rate, so both are learned by the same rules (rates.py):
a user's own jobs count for his own, of others only what several agree on, and all of it is shrunk by its doubt. It
counts as little as it may be, so that nobody waits for what a few odd jobs showed. Shapes count nodes and know no
racks: beyond a node it is one cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pal_slurm.learning.rates import STEP_VAR, Edge, RateEvidence, RatesShown, complete, edges_between
from pal_slurm.model import App, Apps
from pal_slurm.store.tables import Baseline
from pal_slurm.store.votes import UserApp

NEAR, FAR = SPANS = ("a node", "nodes")


def with_spans(apps: Apps, users: Iterable[UserApp]) -> Apps:
    """What pal.yaml tells of an application's costs stands, and its jobs are not asked."""
    shown: dict[str, dict[str, RatesShown]] = defaultdict(dict)
    for mine in users:
        if max(apps.get(mine.app).comm) == 1.0 and (edges := tuple(_edges(mine.base))):
            shown[mine.app][mine.user] = RatesShown(edges)
    if not shown:
        return apps
    # Each a class of its own: who is as sensitive to slow GPUs does not talk as much.
    alone = Apps({name: App(name, name) for name in shown}, App("?", "?"))
    learned = complete(alone, SPANS, RateEvidence(shown))
    known = dict(apps.known)
    for name in shown:
        known[name] = _told(known.get(name, replace(apps.default, name=name)), learned.known[name])
    own = {key: replace(app, comm=known[key[1]].comm) for key, app in apps.own.items()}
    for (user, name), app in learned.own.items():
        own[user, name] = _told(own.get((user, name), known[name]), app)
    return Apps(known, apps.default, own)


def _told(app: App, learned: App) -> App:
    """With what distance costs it at least; as it is where nothing is known of that."""
    if not learned.base:
        return app
    apart = learned.base[FAR] / learned.base[NEAR]
    doubt = max(learned.trust(span).doubt for span in SPANS)
    cost = max(1.0, apart / (1.0 + doubt))
    return replace(app, comm=(1.0, 1.0, cost, cost))


def _edges(base: Mapping[str, Baseline]) -> Iterable[Edge]:
    """Of as many GPUs of one model, on one node and on several."""
    alike: dict[tuple[str, str], dict[str, list[Baseline]]] = defaultdict(lambda: defaultdict(list))
    for shape, pace in base.items():
        model, gpus, nodes = (*shape.split("|"), "", "")[:3]
        if gpus.isdecimal() and int(gpus) > 1 and nodes.isdecimal():
            alike[model, gpus][NEAR if nodes == "1" else FAR].append(pace)
    for spans in alike.values():
        yield from edges_between({span: _pace(paces) for span, paces in spans.items()}, "app")


def _pace(paces: Iterable[Baseline]) -> tuple[float, float]:
    """Of all that were seen with so many nodes, each as heavy as it is sure: (mean, variance) of log seconds."""
    sure = [(1.0 / (pace.var + STEP_VAR / max(pace.jobs, 1)), pace.mean) for pace in paces]
    weight = sum(heavy for heavy, _ in sure)
    return sum(heavy * mean for heavy, mean in sure) / weight, 1.0 / weight
