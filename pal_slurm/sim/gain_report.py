"""The nouns of `palctl gain`: the month that is replayed, and what is told of it. In: nothing. Out: types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pal_slurm.config.moves import MovesSection
from pal_slurm.model import Apps, Cluster, ScoreTable
from pal_slurm.sim.accounted_evidence import Seen
from pal_slurm.sim.accounted_rates import with_rates
from pal_slurm.sim.compare import Interval
from pal_slurm.sim.traces.sacct import Ran

WORTH = 0.01  # less than 1 % is called no gain


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the GPUs of one class lie apart."""

    cls: str
    low: float  # 5 % of the GPUs are faster
    high: float  # 5 % are slower
    worst: float
    worst_gpu: str
    known: int
    outliers: int  # slower than 1.3


@dataclass(frozen=True, slots=True)
class MovingGain:
    """What moving running jobs would add: those that pald may move, within its bounds."""

    cost_s: float  # a move: the job does nothing for so long
    movable: int  # jobs
    moves_per_job: float
    saved_gpu_hours: Interval  # share of the accounted GPU hours, what moves cost taken off
    saved_jct: Interval  # against the packed replay
    beyond_pal: Interval  # of the time from submission to end, against pald without moves


@dataclass(frozen=True, slots=True)
class SavedBySize:
    """What jobs of one size class would have saved."""

    gpus: str  # the class: 1, 2-4, 5-8, 9-16, >16
    jobs: int
    saved_jct: Interval
    saved_p99_jct: Interval


@dataclass(frozen=True, slots=True)
class Saved:
    """What placement would have saved, if jobs of unknown applications were of one class."""

    unknown_as: str  # the class; empty: every application is known
    saved_gpu_hours: Interval  # share of the accounted GPU hours
    packed_gpu_hours: Interval  # the same by packing alone, blind to scores
    saved_jct: Interval  # share of the mean time from submission to end, against the packed replay
    saved_p99_jct: Interval  # the same of the 99th percentile
    sizes: tuple[SavedBySize, ...]  # the same by the GPUs of a job
    most: float  # share of GPU hours that no placement can exceed: every job on the best GPUs, near each other
    moving: MovingGain | None = None

    @property
    def sure(self) -> bool:
        """The interval of the GPU hours saved lies above nothing."""
        hours = self.saved_gpu_hours
        return hours.mean - (hours.reach or 0.0) > 0 and hours.mean >= WORTH


@dataclass(frozen=True, slots=True)
class GainReport:
    jobs: int
    users: int
    nodes: int
    gpus: int
    days: float
    load: float  # GPU hours used over those there were
    spreads: tuple[Spread, ...]
    gpu_hours: float  # as accounted
    unknown: int  # jobs whose application, and so whose class, is not known
    saved: tuple[Saved, ...]  # one; or two where some are unknown: by the most sensitive class, by the least
    seen: Seen  # whether accounting itself shows that slow GPUs cost time
    verdict: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Month:
    """What is replayed, and what is known of it."""

    rans: Sequence[Ran]
    cluster: Cluster
    scores: ScoreTable
    apps: Apps
    locality: float = 1.7
    move_cost_s: float | None = None  # None: moves are not asked for
    moves: MovesSection = field(default_factory=MovesSection)
    note: str = ""  # on where all that comes from

    def with_unknown(self, cls: str) -> Month:
        """As if all applications that are not known were of that class."""
        default = replace(self.apps.default, cls=cls)
        rans, apps = with_rates(self.rans, self.cluster, Apps(self.apps.known, default, self.apps.own))
        return replace(self, rans=rans, apps=apps)

    @property
    def unknown(self) -> int:
        return sum(1 for ran in self.rans if ran.app not in self.apps.known)

    @property
    def used_s(self) -> float:
        return sum(ran.gpus * (ran.end - ran.start) for ran in self.rans)
