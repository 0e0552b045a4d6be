"""Rollout to a part of the jobs. In: jobs, `canary` of pal.yaml. Out: ids of those that pald leaves to Slurm.

Pending ones are released plain, running ones are not moved.

A job is drawn by its id, so every cycle and every pald says the same of it, and the tasks of an array go together.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from pal_slurm.config import CanarySection, Config
from pal_slurm.model import Job


def outside(jobs: Iterable[Job], config: Config) -> frozenset[int]:
    """In shadow mode nothing is at stake, so all jobs are looked at."""
    canary = config.canary
    if config.actuator == "shadow" or (canary.percent >= 100 and not canary.partitions):
        return frozenset()
    chosen = frozenset(canary.partitions)
    return frozenset(job.id for job in jobs if not (_drawn(job, canary.percent) and _lies_in(job, chosen)))


def described(canary: CanarySection) -> str:
    """For one line of `palctl status`; empty when every job is placed."""
    parts = [f"{canary.percent:g} % of the jobs"] if canary.percent < 100 else []
    parts += [f"in {','.join(canary.partitions)}"] if canary.partitions else []
    return " ".join(["canary:", *parts]) if parts else ""


def _drawn(job: Job, percent: float) -> bool:
    # A checksum and not hash(): the same in every process, and neighbours in the queue are drawn independently.
    return crc32(str(job.array_id or job.id).encode()) % 10_000 < percent * 100


def _lies_in(job: Job, chosen: frozenset[str]) -> bool:
    return not chosen or chosen.issuperset(job.partitions)
