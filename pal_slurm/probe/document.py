"""The nouns of a probe's document. In: what was found and measured. Out: JSON text, the same for the same content.

docs/probe.md explains each field. Units are part of the names; times are seconds since 1970, shares are 0 to 1.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = "pal-probe"
VERSION = 1
KINDS = ("inventory", "bench", "import", "job")
ALL_REDUCE = "all-reduce"
BACKENDS = ("gloo", "nccl")
SCOPES = ("gpu", "node")  # measured alone, or while all GPUs of the node did the same
OUTCOMES = ("pass", "warn", "fail", "skip")


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as it sat in its node; None: it does not tell."""

    uuid: str
    node: str
    slot: int | None  # the number of its device file: gres.conf's File=/dev/nvidia<slot>
    model: str
    source: str
    serial: str | None = None
    pci: str | None = None
    driver: str | None = None
    memory_mib: int | None = None
    power_cap_w: float | None = None
    power_cap_default_w: float | None = None
    mig: bool | None = None
    ecc: bool | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    retired_pages: int | None = None
    remapped_rows: int | None = None
    repair_pending: bool | None = None  # pages or rows wait for a reboot
    reasons: tuple[str, ...] = ()  # why its clocks were not free at that moment


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What a GPU did over some time: means, unless the name says min or max."""

    samples: int
    sm_mhz: float | None = None
    sm_mhz_min: float | None = None
    mem_mhz: float | None = None
    power_w: float | None = None
    power_w_max: float | None = None
    temperature_c: float | None = None
    temperature_c_max: float | None = None
    util_compute: float | None = None
    util_memory: float | None = None
    sm_active: float | None = None
    dram_active: float | None = None
    tensor_active: float | None = None
    reasons: dict[str, float] = field(default_factory=dict)  # clocks-event reason -> share of the samples


@dataclass(frozen=True, slots=True)
class Kernel:
    """Something that was run, as it was asked for."""

    app: str
    spec: str
    cls: str | None = None  # where the one who asked said which class it measures


@dataclass(frozen=True, slots=True)
class TimedRun:
    """One timed run. `seconds` is the time of one step, or of one unit of work where a rate was measured."""

    app: str
    uuids: tuple[str, ...]  # one GPU; several only where one time stands for all of them
    scope: str
    seconds: float
    measured_at: float
    round: int = 0
    steps: int = 1
    unit: str = "s"
    telemetry: Telemetry | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A verdict of a diagnostic: a GPU that fails is unhealthy, not slow."""

    name: str
    outcome: str
    uuid: str | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that did not work, as a sentence."""

    what: str
    uuid: str | None = None
    slot: int | None = None
    app: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    kind: str
    made_by: str
    begun_at: float
    ended_at: float
    job: str | None = None
    devices: tuple[Device, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    runs: tuple[TimedRun, ...] = ()
    checks: tuple[Check, ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduced:
    """All-reduce of one size."""

    bytes: int  # of each rank
    rounds: int
    seconds: float  # median over the rounds of the slowest rank's time
    spread: float  # standard deviation of its logarithm


@dataclass(frozen=True, slots=True)
class ReduceDocument:
    """What summing over several ranks takes: `pal-probe all-reduce`."""

    made_by: str
    begun_at: float
    ended_at: float
    job: str | None
    backend: str
    model: str  # of the GPUs; cpu
    nodes: tuple[str, ...]  # of each rank
    reduced: tuple[Reduced, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """A line of a job's file: what one of its GPUs did from `begun_at` on."""

    uuid: str
    begun_at: float
    ended_at: float
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A line of a job's file: steps that one process of it reported."""

    rank: int
    begun_at: float
    ended_at: float
    count: int
    seconds: float  # of all of them together
    fastest: float
    slowest: float
    app: str | None = None


@dataclass(frozen=True, slots=True)
class JobPart:
    """A job's file, read: part n of what a node saw of one job."""

    job: str
    node: str
    part: int
    made_by: str
    app: str | None
    devices: tuple[Device, ...]
    usage: tuple[Usage, ...]
    steps: tuple[StepTimes, ...]
    faults: tuple[Fault, ...]
    begun_at: float
    ended_at: float
    last: bool  # the job was over, or left the node
    user: int | None = None  # whose processes the node saw


def to_json(document: Document | ReduceDocument) -> str:
    """One line of JSON; a number that is not finite is refused."""
    kind = {"kind": ALL_REDUCE} if isinstance(document, ReduceDocument) else {}
    return line({"format": FORMAT, "version": VERSION, **kind, **asdict(document)})


def line(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False, ensure_ascii=True, separators=(",", ":")) + "\n"
