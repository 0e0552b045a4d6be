"""The work that accounted jobs had. In: accounting rows, scores by node and slot, models. Out: a cluster, a Workload.

A job's run time is divided by what its GPUs, their model and their distance made of it, as far as that is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from pal_slurm.config.moves import MovesSection
from pal_slurm.errors import BadInput
from pal_slurm.model import App, Apps, Cluster, ScoreTable, base_of, comm_of, homogeneous, step_time
from pal_slurm.model.consent import Given, consent_of
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.sim.traces.sacct import Ran
from pal_slurm.sim.workload import Work, Workload, workload

MOST_PER_NODE = 64
LIMIT_FACTOR = 2.0  # time limit over run time, where accounting names none
NO_MODELS: Mapping[str, str] = {}
ALIKE: Mapping[str, float] = {"gpu": 1.0}


def placed(rans: Sequence[Ran]) -> tuple[list[Ran], list[str]]:
    """Jobs whose NodeList names nodes that can have had their GPUs; what is wrong with the others."""
    kept, odd = [], []
    for ran in rans:
        nodes = expand_hosts(ran.node_list)
        if not nodes:
            odd.append(f"line {ran.line}, NodeList: {ran.node_list[:60]!r} names no nodes; add NodeList to sacct's -o")
        elif ran.gpus > MOST_PER_NODE * len(nodes):
            odd.append(f"line {ran.line}, NodeList: {ran.gpus} GPUs on {len(nodes)} nodes; a node has {MOST_PER_NODE}")
        else:
            kept.append(ran)
    if odd and not kept:
        raise BadInput(f"{odd[0]}.")
    return kept, odd


def cluster_of(rans: Sequence[Ran], width: int | None, models: Mapping[str, str] = NO_MODELS) -> Cluster:
    """The nodes that accounting names; `width`: GPUs on each, else the most that a one-node job had.

    `models`: GPU model by node; where one is missing nothing is known of models, and all count alike.
    """
    names: set[str] = set()
    most = 1
    for ran in rans:
        nodes = expand_hosts(ran.node_list)
        if not nodes:
            raise BadInput(
                f"Job {ran.name}: NodeList {ran.node_list[:60]!r} names no nodes; add NodeList to sacct's -o."
            )
        names |= nodes
        most = max(most, -(-ran.gpus // len(nodes)))
    width = most if width is None else width
    if most > width:
        raise BadInput(f"A job had {most} GPUs on each of its nodes; --gpus-per-node {width} is too few.")
    cluster = replace(homogeneous(len(names), width), node_names=tuple(sorted(names)))
    if not names <= models.keys() or len({models[name] for name in names}) == 1:
        return cluster
    known = tuple(sorted({models[name] for name in names}))
    of_node = np.array([known.index(models[name]) for name in cluster.node_names], dtype=np.int16)
    return replace(cluster, models=known, gpu_model=np.repeat(of_node[:, None], width, axis=1))


def may_move(ran: Ran, keys: MovesSection) -> bool:
    """Whether pald may move it, as far as accounting tells: it said pal:move, or its QOS or partition is one of
    `moves`. Which users' jobs are seen to resume (`mode: proven`) accounting does not tell."""
    named = set(filter(None, ran.partition.split(",")))
    site = ran.qos in keys.qos or (bool(named) and named <= set(keys.partitions))
    given = consent_of(ran.hint.consent, restarts=True, asked_first=False, site=site, requeue=False).given
    return not ran.hint.off and given in (Given.ASKED, Given.SITE)


def works_of(
    rans: Sequence[Ran],
    cluster: Cluster,
    scores: ScoreTable,
    apps: Apps,
    comm: tuple[float, float, float, float],
    moves: MovesSection | None = None,
) -> Workload:
    """The jobs with the work that they had, as far as it can be told."""
    expected = ExpectedWorst(scores)
    moves = moves or MovesSection()
    made: dict[tuple[int, str | None, str], App] = {}
    works = []
    for i, ran in enumerate(rans):
        rows = sorted(cluster.node_index[name] for name in expand_hosts(ran.node_list) or ())
        on = {cluster.models[cluster.gpu_model[row, 0]] for row in rows}
        held = _held(ran, on, apps, cluster)
        known = apps.get(ran.app, ran.user)
        if (id(known), ran.app, held) not in made:
            factors = known.comm if known.comm != (1.0, 1.0, 1.0, 1.0) else comm
            base = {held: 1.0} if held else {model: known.base.get(model, 1.0) for model in cluster.models}
            made[id(known), ran.app, held] = App(
                ran.app or "?", known.cls, base if len(cluster.models) > 1 else ALIKE, factors
            )
        app = made[id(known), ran.app, held]
        worst = expected(scores.index(app.cls), tuple(rows), ran.gpus)
        base_s = max(base_of(app, model) for model in on)
        factor = step_time(base_s, worst, comm_of(app, cluster.tier_of(tuple(rows), ran.gpus)))
        run_s = ran.end - ran.start
        limit_s = ran.limit_s or LIMIT_FACTOR * run_s
        works.append(
            Work(i, ran.submit, ran.gpus, run_s / factor, app, limit_s, ran.user, may_move(ran, moves), model=held)
        )
    return workload(works).from_zero()


def _held(ran: Ran, on: Set[str], apps: Apps, cluster: Cluster) -> str:
    """The GPU model that a job keeps: it named it, or nobody knows its speed on others. Empty: it may have any."""
    if len(cluster.models) == 1 or len(on) > 1:
        return ""
    asked = set(re.split(r"[^A-Za-z0-9_.+-]+", ran.asked))
    known = set(cluster.models) <= apps.get(ran.app, ran.user).base.keys()
    return "" if known and not asked & set(cluster.models) else next(iter(on))


class ExpectedWorst:
    """The expected worst score of so many GPUs drawn from some nodes."""

    def __init__(self, scores: ScoreTable) -> None:
        self._score = scores.score
        self._seen: dict[tuple[int, tuple[int, ...], int], float] = {}

    def __call__(self, cls: int, rows: tuple[int, ...], gpus: int) -> float:
        key = (cls, rows, gpus)
        if key not in self._seen:
            each = -(-gpus // len(rows))
            width = self._score.shape[2]
            ordered = np.sort(self._score[cls, list(rows)], axis=1)
            # chance that the k-th lowest of `width` is the worst of `each` drawn
            below = np.array([_choose(k, each) for k in range(width + 1)]) / _choose(width, each)
            self._seen[key] = float((ordered * np.diff(below)).sum(axis=1).max())
        return self._seen[key]


def _choose(n: int, k: int) -> float:
    out = 1.0
    for i in range(k):
        out *= max(n - i, 0) / (i + 1)
    return out
