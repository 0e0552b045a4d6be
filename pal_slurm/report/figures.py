"""The figures of the fleet's page, as records. In: nothing. Out: types; `palctl report --json` prints them as they are.

Shares and utilisations are from 0 to 1, nights are dates in UTC, times epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    FRESH = "fresh"  # it counts
    STALE = "stale"  # measured, but too long ago, or absurd: counts as 1.0
    NEVER = "never"  # never measured: counts as 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known of one GPU for one class."""

    state: State
    score: float | None = None
    low: float | None = None
    high: float | None = None
    nights: int | None = None
    age_days: float | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    node: str
    slot: int
    uuid: str
    model: str
    marks: Mapping[str, Mark]  # by class


@dataclass(frozen=True, slots=True)
class Coverage:
    cls: str
    fresh: int
    stale: int
    never: int


@dataclass(frozen=True, slots=True)
class NightCount:
    night: str
    gpus: int


@dataclass(frozen=True, slots=True)
class ScoreSpread:
    """How the fresh scores of one class and model are spread."""

    cls: str
    model: str
    gpus: int
    p05: float
    median: float
    p95: float
    worst: float
    slow: float  # share of GPUs above 1.1


@dataclass(frozen=True, slots=True)
class Bar:
    low: float
    high: float
    gpus: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """Fresh scores of one class, all models; what lies outside counts in the first and the last bar."""

    cls: str
    gpus: int
    below: int
    above: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class NightLevel:
    night: str
    level: float  # 1.0: as long as in the median night
    gpus: int
    runs: int
    stalls: int
    node_stalls: int


@dataclass(frozen=True, slots=True)
class Trend:
    """One kernel on one model, night by night."""

    cls: str
    app: str
    scope: str
    model: str
    nights: tuple[NightLevel, ...]
    shift: float | None  # 1.08: the newest night took 8 % longer than those before; None: as usual


@dataclass(frozen=True, slots=True)
class DriftedGpu:
    """A GPU that surely changed against its fleet: the medians of the first and the last third of its nights."""

    node: str
    slot: int
    uuid: str
    cls: str
    before: float
    after: float
    nights: int


@dataclass(frozen=True, slots=True)
class OwnScore:
    night: str
    score: float


@dataclass(frozen=True, slots=True)
class Worst:
    """A slow GPU, by its worst class, and what that rests on."""

    node: str
    slot: int
    uuid: str
    model: str
    cls: str
    score: float
    low: float | None
    high: float | None
    nights: int | None
    runs: int
    stalls: int | None
    node_stalls: int | None
    node_part: float | None
    intermittent: bool | None
    jobs: int | None
    age_days: float
    outlier: bool  # slower than 1.3, surely
    others: Mapping[str, float]  # its fresh scores for the other classes
    history: tuple[OwnScore, ...]


@dataclass(frozen=True, slots=True)
class AppPoint:
    app: str
    cls: str
    source: str  # who says so
    jobs: int
    sure: float | None
    compute: float | None
    memory: float | None
    compute_error: float | None
    memory_error: float | None


@dataclass(frozen=True, slots=True)
class RaisedAlert:
    at: float
    kind: str
    said: str


@dataclass(frozen=True, slots=True)
class Fleet:
    made_at: float
    clusters: tuple[str, ...]
    classes: tuple[str, ...]
    stale_after_days: float
    window_nights: int
    models: Mapping[str, int]  # GPUs of each
    nodes: int
    gpus: tuple[Gpu, ...]
    coverage: tuple[Coverage, ...]
    by_night: tuple[NightCount, ...]
    spread: tuple[ScoreSpread, ...]
    histograms: tuple[Histogram, ...]
    trends: tuple[Trend, ...]
    drift: tuple[DriftedGpu, ...]
    outliers: int  # GPUs that are one in at least one class
    worst: tuple[Worst, ...]
    apps: tuple[AppPoint, ...]
    alerts: tuple[RaisedAlert, ...]
