"""What a site says of its pools. In: pal.yaml. Out: PoolRules.

A pool is the GPUs of one model in one partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Dearer = Literal["never", "ask", "ok"]


@dataclass(frozen=True)
class PoolRules:
    dearer: Dearer = "never"  # whether a job may have a pool that bills more than its request would by itself
    billing: Mapping[str, float] = field(
        default_factory=dict
    )  # what a GPU of a model counts for, where Slurm does not say
    wait_s: float = 1800.0  # most that a job waits for a pool that it is owed, or had, while another is free


NO_RULES = PoolRules(dearer="ok")
