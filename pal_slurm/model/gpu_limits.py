"""Limits on GPUs that parts of them do not count against. In: what Slurm tells of limits. Out: whom none binds.

Slurm counts who has a part of a GPU as one of `gres/shard` and none of `gres/gpu`: who may have four GPUs could have
eight jobs on as many, each beside nobody. So a job shares only where no such limit is in its way.
"""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.model.job import Job


@dataclass(frozen=True, slots=True)
class Unlimited:
    """Whom no limit binds that names GPUs and no parts of them; who is not told of is bound."""

    holds: bool = True  # False: Slurm holds nobody to limits
    users: frozenset[tuple[str, str]] = frozenset()  # (account, user): none of its own, of its account or one above
    qos: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()  # whose own QOS has none

    def has(self, job: Job) -> bool:
        if not self.holds:
            return True
        named = self.qos.issuperset(filter(None, job.qos.split(",")))
        return (job.account, job.user) in self.users and named and self.partitions.issuperset(job.partitions)


NOBODY_LIMITED = Unlimited(holds=False)
