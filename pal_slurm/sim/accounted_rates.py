"""How fast jobs are on each GPU model, by accounting alone. In: accounting rows, models of nodes. Out: Apps, rows.

Before anything is installed nobody has named an application. A user's jobs of one name, limit and number of GPUs are
taken for repeated runs, as pald takes them: three or more on each of two models tell what the models are to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from pal_slurm.learning.rate_evidence import ModelRun, rates_by_runs
from pal_slurm.learning.rates import RateEvidence, RatesShown, complete
from pal_slurm.model import App, Apps, Cluster
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.sim.traces.sacct import Ran


def with_rates(rans: Sequence[Ran], cluster: Cluster, apps: Apps) -> tuple[list[Ran], Apps]:
    """Jobs whose speed on every model their like have shown, by the application that they are taken for."""
    if len(cluster.models) == 1:
        return list(rans), apps
    jobs: dict[str, dict[str, RatesShown]] = defaultdict(dict)
    runs = [run for run in (_run(ran, cluster) for ran in rans) if run is not None]
    for (name, user), shown in rates_by_runs(runs).items():
        if shown.edges:
            jobs[name][user] = shown
    named = {name: apps.known.get(name) or App(name, apps.default.cls, comm=apps.default.comm) for name in jobs}
    rated = complete(Apps({**apps.known, **named}, apps.default, apps.own), cluster.models, RateEvidence(jobs))
    own = {key: app for key, app in rated.own.items() if all(app.trust(m).source != "none" for m in cluster.models)}
    told = [replace(ran, app=_name(ran)) if (ran.user, _name(ran)) in own else ran for ran in rans]
    return told, Apps(apps.known, apps.default, {**apps.own, **own})


def _name(ran: Ran) -> str:
    return ran.app or ran.title


def _run(ran: Ran, cluster: Cluster) -> ModelRun | None:
    nodes = expand_hosts(ran.node_list) or frozenset[str]()
    models = {cluster.models[cluster.gpu_model[cluster.node_index[node], 0]] for node in nodes}
    if len(models) != 1 or not _name(ran) or not ran.user:
        return None
    limit_s = None if ran.limit_s is None else int(ran.limit_s)
    alike = (ran.gpus, len(nodes), limit_s, ran.title)
    return ModelRun(_name(ran), ran.user, alike, models.pop(), ran.end - ran.start)
