"""What Slurm says of who is to get how much. In: its fair-share tree and QOS. Out: FairShares, weights of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pal_slurm.model.job import Job


@dataclass(frozen=True)
class FairShares:
    """What is not told counts 1."""

    accounts: Mapping[str, float] = field(default_factory=dict)  # the part of everything that each is to get
    users: Mapping[tuple[str, str], float] = field(default_factory=dict)  # by account and name: over his fellows' mean
    qos: Mapping[str, float] = field(default_factory=dict)  # 1, and up to 2 for the one of the highest priority
    deadlines: Mapping[int, float] = field(default_factory=dict)  # by job that waits or runs: epoch; kept by Slurm
    wishes: Mapping[int, float] = field(default_factory=dict)  # the same as users wish it: pal:by, which costs nothing
    asked: float | None = None  # when the weights were told, epoch; None: never
    untold: str = ""  # why they were not told the last time

    def of_account(self, job: Job) -> float:
        """One that the tree does not have, as one that came just now, is like the smallest that it has."""
        return self.accounts.get(job.account, min(self.accounts.values(), default=1.0))

    def inside(self, job: Job) -> float:
        """Among the jobs of its account."""
        return self.users.get((job.account, job.user), 1.0) * self.qos.get(job.qos, 1.0)


NO_SHARES = FairShares()


class Due(NamedTuple):
    """What one job is owed."""

    entitlement: str
    owner: str  # its account, or its user where it has none
    weight: float  # its own: its account's part of everything, its user's in that, its QOS
    pools: tuple[str, ...]  # GPU models
    shares: tuple[float, ...]  # of its time in each; none: not worked out yet
    owed_s: float  # of its best GPUs' time, by now
    user: str = ""
    gpus: float | None = None  # that its user is owed in that account; None: an older pald did not say
    has: int = 0  # GPUs that its user has there
    asked: float | None = None  # when the weights were told, where Slurm did not tell them lately
    untold: bool = False  # it did not
