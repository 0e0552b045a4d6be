"""Which pools a request may have by what they bill. In: a job, its areas, the site's rules. Out: areas, none dearer.

What a user named he asked for: partitions, models as types of GRES, models in a constraint or in --prefer. Beyond that
a GPU that bills more than the request would by itself is dearer; a request that names no model would be billed as the
cheapest that it could get: of which there are, and are up, as many as it needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import BoolArray, Cluster, FloatArray, Job, PoolRules

if TYPE_CHECKING:
    from pal_slurm.policy.needs import Area

AS_MUCH = 1e-9
Ways = Sequence[tuple[int, int, int, int]]  # (nodes, GPUs, CPUs, MB on each)


def only_of(types: Sequence[str], cluster: Cluster) -> BoolArray | None:
    """Nodes that have GPUs of that model only; None: it is none, or several in one request."""
    if len(types) != 1 or types[0] not in cluster.models:
        return None
    other = cluster.gpu_exists & (cluster.gpu_model != cluster.models.index(types[0]))
    return np.asarray((cluster.gpus_per_node > 0) & ~other.any(axis=1))


def is_up(job: Job, cluster: Cluster) -> bool:
    """Whether a node of the one model that it is held to can be used, in a partition of its."""
    there = only_of(job.types, cluster)
    if there is None:
        return True
    usable = there & cluster.node_ok
    parts = [cluster.partitions[name] for name in job.partitions if name in cluster.partitions]
    return bool((usable & np.logical_or.reduce(parts)).any() if parts else usable.any())


def weight(cluster: Cluster, partition: str, model: str, rules: PoolRules) -> float:
    """What a GPU of that model bills there beyond what any GPU does."""
    told = cluster.billing.get(partition, {}).get(model.lower())
    return rules.billing.get(model, 0.0) if told is None else told


def affordable(job: Job, areas: Sequence[Area], ways: Ways, cluster: Cluster, rules: PoolRules) -> list[Area]:
    """The areas without nodes of dearer models."""
    free = rules.dearer == "ok" or (rules.dearer == "ask" and job.hint.dearer)
    if free or len(cluster.models) == 1 or job.types or not (rules.billing or cluster.billing):
        return list(areas)
    named = set(re.split(r"[][&|,()*]", f"{job.features},{job.prefers}"))
    return [_within(area, named, ways, cluster, rules) for area in areas]


def _within(area: Area, named: Set[str], ways: Ways, cluster: Cluster, rules: PoolRules) -> Area:
    weights = np.array([weight(cluster, area.name, model, rules) for model in cluster.models])
    each = np.where(cluster.gpu_exists, weights[cluster.gpu_model], -np.inf).max(axis=1)  # of a node's dearest GPU
    here = cluster.gpus_per_node > 0
    here = here if area.mask is None else here & area.mask
    most = _cheapest(each, here & cluster.node_ok, ways, cluster)
    asked_for = [i for i, model in enumerate(cluster.models) if model in named]
    dearer = (each > most + AS_MUCH) & ~(np.isin(cluster.gpu_model, asked_for) & cluster.gpu_exists).any(axis=1)
    if not (dearer & here).any():
        return area
    return replace(area, mask=~dearer if area.mask is None else area.mask & ~dearer)


def _cheapest(each: FloatArray, nodes: BoolArray, ways: Ways, cluster: Cluster) -> float:
    """What a GPU of the cheapest nodes bills that would do, were they free; infinity: none would."""
    room = [
        (n, nodes & (cluster.gpus_per_node >= gpus) & (cluster.cpus >= cpus) & (cluster.mem_mb >= mem_mb))
        for n, gpus, cpus, mem_mb in ways
    ]
    found = (np.sort(each[there])[n - 1] for n, there in room if np.count_nonzero(there) >= n)
    return float(min(found, default=np.inf))
