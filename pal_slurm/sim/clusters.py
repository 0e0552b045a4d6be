"""Clusters out of a few characters. In: `16x4`, `64x8/16/64`, `v100:8x4+k80:8x4`. Out: an idle Cluster.

`64x8/16/64`: racks of 16 nodes, in groups (of one spine switch) of 64.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from pal_slurm.errors import BadInput
from pal_slurm.model import Cluster, homogeneous
from pal_slurm.words import digits

_PART = re.compile(r"(?:(?P<model>[A-Za-z0-9][\w.-]*):)?(?P<nodes>[0-9]{1,6})x(?P<gpus>[0-9]{1,2})")
MOST_GPUS = 1_000_000


def parse_cluster(text: str) -> Cluster:
    body, *levels = text.split("/")
    parts = [_PART.fullmatch(part) for part in body.split("+")]
    if not all(digits(level) and len(level) < 7 for level in levels) or any(part is None for part in parts):
        raise BadInput(
            f"{text!r} is no cluster; write NODESxGPUS, as in 16x4, 64x8/16, 64x8/16/64 or v100:8x4+k80:8x4."
        )
    sizes = [int(level) for level in levels]
    if (
        any(wider <= size or wider % size for size, wider in zip([0, *sizes], sizes, strict=False) if size)
        or 0 in sizes
    ):
        raise BadInput(
            f"{text!r}: racks, and groups of racks, have 1 or more nodes, and each is a multiple of the last."
        )
    shapes = [(part["model"] or "gpu", int(part["nodes"]), int(part["gpus"])) for part in parts if part is not None]
    if any(nodes < 1 or gpus < 1 for _, nodes, gpus in shapes) or sum(n * g for _, n, g in shapes) > MOST_GPUS:
        raise BadInput(f"{text!r}: a cluster has 1 to {MOST_GPUS:,} GPUs, and at least one on each node.")
    width = max(gpus for _, _, gpus in shapes)
    rack, *groups = sizes or [0]
    cluster = homogeneous(sum(nodes for _, nodes, _ in shapes), width, rack_size=rack, group_sizes=groups)
    models = tuple(dict.fromkeys(model for model, _, _ in shapes))
    exists = np.concatenate([np.tile(np.arange(width) < gpus, (nodes, 1)) for _, nodes, gpus in shapes])
    model_of = np.concatenate([np.full((nodes, width), models.index(model)) for model, nodes, _ in shapes])
    return replace(
        cluster, gpu_exists=exists, gpu_free=exists.copy(), gpu_model=model_of.astype(np.int16), models=models
    )
