"""Could a job run here at all? In: a job, the floor. Out: yes or no, on the same cluster with every node up and idle.

What we reckon from a request is the even case; Slurm knows more ways to serve it (a node without a GPU, CPUs counted
by task). A job that would wait for ever by our reckoning is not ours to keep: Slurm decides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pal_slurm.model import Job
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.needs import Need


class Ever:
    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._idle: Floor | None = None
        self._known: dict[Need, bool] = {}

    def fits(self, job: Job) -> bool:
        cluster = self._floor.cluster
        if any(name not in cluster.partitions for name in job.partitions):
            return True  # down for now, or unknown: it waits for that
        if self._idle is None:
            idle = replace(
                cluster, node_ok=np.ones_like(cluster.node_ok), gpu_free=cluster.gpu_exists, cpus_free=cluster.cpus,
                mem_free_mb=cluster.mem_mb,
            )  # fmt: skip
            self._idle = Floor(idle, self._floor.knowledge)  # no reservation lasts for ever
        need = self._idle.needs.guess(job)
        if need not in self._known:
            self._known[need] = first_fit(job, self._idle) is not None
        return self._known[need]
