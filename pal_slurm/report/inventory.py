"""The stored GPUs as a Cluster, for reports that need no Slurm. In: stays. Out: model.Cluster, all of it idle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pal_slurm.model import Cluster
from pal_slurm.store import Stay


def cluster_of(stays: Sequence[Stay]) -> Cluster:
    """Nodes by first sight; CPUs, memory and partitions are unknown and left empty."""
    names = tuple(dict.fromkeys(stay.node for stay in stays))
    index = {name: i for i, name in enumerate(names)}
    models = tuple(sorted({stay.model for stay in stays})) or ("",)
    width = max((stay.slot for stay in stays), default=-1) + 1
    exists = np.zeros((len(names), width), dtype=np.bool_)
    model = np.zeros((len(names), width), dtype=np.int16)
    for stay in stays:
        exists[index[stay.node], stay.slot] = True
        model[index[stay.node], stay.slot] = models.index(stay.model)
    none = np.zeros(len(names), dtype=np.int64)
    return Cluster(
        node_names=names,
        node_ok=np.ones(len(names), dtype=np.bool_),
        rack=none,
        cpus=none,
        cpus_free=none,
        mem_mb=none,
        mem_free_mb=none,
        features=(frozenset(),) * len(names),
        partitions={},
        gpu_exists=exists,
        gpu_free=exists.copy(),
        gpu_model=model,
        models=models,
        slots=True,
    )
