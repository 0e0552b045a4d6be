"""What distance costs an application, as its jobs show it. In: its usual paces by shape. Out: a factor and its doubt.

Jobs of as many GPUs of one model, on one node and on several: the ratio of their step times. Shapes count nodes and
know no racks, so this tells one cost for all that is beyond a node. It is for people; what plans count with is learned
by user, with doubt (spans.py), and an admin may know better.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, sqrt
from typing import NamedTuple

from pal_slurm.store.tables import Baseline


class Apart(NamedTuple):
    """Step time on several nodes over that on one."""

    factor: float
    doubt: float  # standard error, as a share of it
    jobs: int


def apart(base: Mapping[str, Baseline]) -> Apart | None:
    """The mean over all pairs of shapes, each as heavy as it is sure; None: no two jobs tell it."""
    total = weight = 0.0
    jobs = 0
    for shape, far in base.items():
        model, gpus, nodes = (*shape.split("|"), "", "")[:3]
        near = base.get(f"{model}|{gpus}|1")
        if nodes in ("", "1") or near is None:
            continue
        sure = 1.0 / max(near.var + far.var, 1e-9)
        total += sure * (far.mean - near.mean)
        weight += sure
        jobs += near.jobs + far.jobs
    return Apart(exp(total / weight), sqrt(1.0 / weight), jobs) if weight else None
