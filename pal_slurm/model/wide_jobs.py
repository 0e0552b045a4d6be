"""Jobs that had whole nodes, and how often one comes. In: jobs that have ended. Out: when, and on how many nodes.

Whoever decides what small jobs leave free for the next wide one asks this (policy/spared.py); pald and the simulator
teach it alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from pal_slurm.model.cluster import Cluster
from pal_slurm.model.job import Job

MOST = 100  # that are remembered


class WideJob(NamedTuple):
    ended: float
    nodes: tuple[str, ...]


class WideJobs:
    """Of one cluster: the last that have ended."""

    def __init__(self) -> None:
        self._last: deque[WideJob] = deque(maxlen=MOST)

    def ended(self, at: float, nodes: Sequence[str], gpus: int, cluster: Cluster, job: Job | None = None) -> None:
        """A job that had so many GPUs in all: it counts if these were all of its nodes, two or more on each.

        `job`: one that could have had its GPUs on more nodes does not count. None: nobody remembers what it asked for.
        """
        if job is not None and _could_have_more(job, len(nodes)):
            return
        rows = [cluster.node_index[name] for name in nodes if name in cluster.node_index]
        if not rows or len(rows) < len(nodes):
            return
        have = cluster.gpus_per_node[rows]
        if have.min() >= 2 and gpus == have.sum():
            self._last.append(WideJob(at, tuple(nodes)))

    def lately(self) -> list[WideJob]:
        """The first that ended first."""
        return sorted(self._last)


def _could_have_more(job: Job, nodes: int) -> bool:
    if job.lease is not None:  # a pin has changed what it asks for now
        asked = job.lease.original
        return bool(asked.per_job) and not 0 < asked.max_nodes <= nodes
    return job.shape is None or job.shape.max_nodes > nodes
