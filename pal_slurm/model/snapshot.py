"""One look at Slurm, and what we know beside it: all that policies and guard ever see. In: records. Out: Snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.model.app import Apps
from pal_slurm.model.cluster import Cluster
from pal_slurm.model.job import Job
from pal_slurm.model.scores import ScoreTable


@dataclass(frozen=True, slots=True)
class Reservation:
    name: str
    nodes: frozenset[str]
    start: int
    end: int
    maintenance: bool = False
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    taken: float  # epoch seconds; P6 checks its age right before each write
    cluster: Cluster
    pending: tuple[Job, ...]  # in Slurm's own order: priority, then submit time, then id
    running: tuple[Job, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    dropped_hints: int = 0  # jobs whose hostile or broken comment cost them their hint
    unread: tuple[str, ...] = ()  # records that could not be understood, one sentence each


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the store knows: scores aligned with the snapshot's cluster, and applications."""

    scores: ScoreTable
    apps: Apps = Apps()
