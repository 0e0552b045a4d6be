"""Which jobs Slurm lets run in a partition, as far as records tell. In: a job. Out: yes or no.

Accounts and groups are left out: releases differ in what an account's children may, and no record tells groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pal_slurm.model.job import Job


@dataclass(frozen=True, slots=True)
class PartitionRule:
    tier: int = 1  # PriorityTier: jobs of a higher one come first, whatever their priorities
    longest_s: float = math.inf  # MaxTime
    least_nodes: int = 0
    most_nodes: float = math.inf
    qos: frozenset[str] | None = None  # None: any
    not_qos: frozenset[str] = frozenset()
    preempted: bool = False  # its jobs make way where partitions preempt

    def admits(self, job: Job) -> bool:
        limit = math.inf if job.time_limit_s is None else job.time_limit_s
        least, most = (job.shape or job.roughly).min_nodes, (job.shape or job.roughly).max_nodes
        fits = limit <= self.longest_s and least <= self.most_nodes and (most >= self.least_nodes or not most)
        named = not job.qos or ((self.qos is None or job.qos in self.qos) and job.qos not in self.not_qos)
        return fits and named


ANYBODY = PartitionRule()
