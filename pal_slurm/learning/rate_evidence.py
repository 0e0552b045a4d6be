"""What jobs and nights showed of GPU models. In: the store, which model sits where. Out: RateEvidence.

Step times of pal-probe first: usual paces by user and shape, held against each other where GPUs and nodes are as many.
Where an application tells no steps: run times of a user's repeated jobs (of one name, time limit and number of GPUs),
with the doubt they deserve.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, log
from statistics import median
from typing import NamedTuple

from pal_slurm.learning.rates import (
    FLEET_VAR,
    LEAST_RUNS,
    RUN_VAR,
    STEP_VAR,
    Edge,
    RateEvidence,
    RatesShown,
    edges_between,
)
from pal_slurm.model import Cluster
from pal_slurm.store import GpuRepo, JobOutcome, OutcomeRepo, Stay, Store
from pal_slurm.store.nights import NightRepo
from pal_slurm.store.votes import UserApp, VoteRepo

DAY_S = 86_400.0
RUNS_S, NIGHTS = 30 * DAY_S, 30  # as far back
LEAST_S = 60.0  # a shorter run was a test, or failed
CUT_OFF = 0.98  # of its limit: a longer run did not end by itself
MOST_RUNS = 20_000  # as many of each user, so that nobody's many jobs push out those of others

Kind = tuple[int, int, int | None, str | None]  # GPUs, nodes, time limit, name: of jobs that are alike


def evidence_of(store: Store, cluster: Cluster, name: str, now: float) -> RateEvidence:
    """`name`: of the cluster, whose outcomes count."""
    names = model_names(GpuRepo(store).current(), cluster)
    jobs: dict[str, dict[str, RatesShown]] = defaultdict(dict)
    for mine in VoteRepo(store).every_app():
        jobs[mine.app][mine.user] = _by_steps(mine, names)
    runs = OutcomeRepo(store, name).ran(now - RUNS_S, LEAST_S, MOST_RUNS)
    for (app, user), shown in _by_runs(runs, cluster).items():
        jobs[app][user] = _both(jobs[app].get(user, RatesShown()), shown)
    return RateEvidence(jobs, _by_nights(store, names))


def model_names(stays: Iterable[Stay], cluster: Cluster) -> Mapping[str, str]:
    """What cards call themselves, to what the site calls the GPUs in their slots."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for stay in stays:
        row = cluster.node_index.get(stay.node)
        if row is not None and stay.slot < cluster.width and cluster.gpu_exists[row, stay.slot]:
            seen[stay.model][cluster.models[cluster.gpu_model[row, stay.slot]]] += 1
    return {card: names.most_common(1)[0][0] for card, names in seen.items()}


def _by_steps(mine: UserApp, names: Mapping[str, str]) -> RatesShown:
    """Of all shapes the models that were seen with as many GPUs and nodes."""
    alike: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for shape, base in mine.base.items():
        model, _, rest = shape.partition("|")
        alike[rest][names.get(model, model)] = (base.mean, base.var + STEP_VAR / max(base.jobs, 1))
    edges = [edge for levels in alike.values() for edge in edges_between(levels, "app")]
    most = max(alike.values(), key=len, default={})
    return RatesShown(tuple(edges), {model: mean for model, (mean, _) in most.items()})


class ModelRun(NamedTuple):
    """A run that ended, on GPUs of one model."""

    app: str
    user: str
    alike: Kind
    model: str
    seconds: float


def _by_runs(outcomes: Sequence[JobOutcome], cluster: Cluster) -> Mapping[tuple[str, str], RatesShown]:
    runs = []
    for o in outcomes:
        model = _model_of(o, cluster)
        if model and o.app and o.user and o.end is not None:
            alike = (sum(map(len, o.gpus)), len(o.nodes), o.limit_s, o.named)
            runs.append(ModelRun(o.app, o.user, alike, model, o.end - o.start))
    return rates_by_runs(runs)


def rates_by_runs(runs: Iterable[ModelRun]) -> Mapping[tuple[str, str], RatesShown]:
    """By application and user. Who ran into its limit did not end by itself."""
    times: dict[tuple[str, str], dict[Kind, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        if LEAST_S <= run.seconds < CUT_OFF * (run.alike[2] or inf):
            times[run.app, run.user][run.alike].setdefault(run.model, []).append(log(run.seconds))
    found = {}
    for key, kinds in times.items():
        edges: list[Edge] = []
        for models in kinds.values():
            levels = {m: (median(of), RUN_VAR / len(of)) for m, of in models.items() if len(of) >= LEAST_RUNS}
            edges += edges_between(levels, "runs")
        found[key] = RatesShown(tuple(edges))
    return found


def _both(steps: RatesShown, runs: RatesShown) -> RatesShown:
    """Run times count only where no step times do."""
    known = {edge.models for edge in steps.edges}
    return RatesShown((*steps.edges, *(edge for edge in runs.edges if edge.models not in known)), steps.levels)


def _model_of(o: JobOutcome, cluster: Cluster) -> str:
    """ "" where it ran on several, or on what is no longer there."""
    models: set[int] = set()
    for node, slots in zip(o.nodes, o.gpus, strict=True):
        row = cluster.node_index.get(node)
        if row is None or any(slot >= cluster.width for slot in slots):
            return ""
        models.update(int(cluster.gpu_model[row, slot]) for slot in slots)
    return cluster.models[models.pop()] if len(models) == 1 else ""


def _by_nights(store: Store, names: Mapping[str, str]) -> Mapping[str, tuple[Edge, ...]]:
    """The same kernel on GPUs of each model."""
    nights = NightRepo(store)
    kernels: dict[tuple[str, str, str], dict[str, tuple[float, float]]] = defaultdict(dict)
    for cls, app, scope, model, seconds in nights.by_model(nights.newest() - NIGHTS):
        if seconds > 0:
            kernels[cls, app, scope][names.get(model, model)] = (log(seconds), FLEET_VAR / 2)
    edges: dict[str, list[Edge]] = defaultdict(list)
    for (cls, _, _), levels in kernels.items():
        edges[cls] += edges_between(levels, "fleet")
    return {cls: tuple(found) for cls, found in edges.items()}
