"""The parts of a document, read strictly. In: Fields. Out: the nouns of document.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from pal_slurm.probe import limits
from pal_slurm.probe.document import (
    OUTCOMES,
    SCOPES,
    Check,
    Device,
    Fault,
    Kernel,
    Reduced,
    StepTimes,
    Telemetry,
    TimedRun,
    Usage,
)
from pal_slurm.probe.fields import Defects, Fields
from pal_slurm.probe.words import APP, CLASS, LONGEST_SENTENCE, NODE, UUID

_WORD = 64


def moment(fields: Fields, name: str, now: float) -> float:
    value = fields.number(name, 0.0, 1e15)
    if 0.0 < value < limits.EARLIEST:
        fields.bad(name, f"{value:.0f} lies before 2020; is the node's clock right?")
    elif value > now + limits.FUTURE_S:
        late = value - now
        hint = limits.IN_EPOCH_MS if value > 1e11 else "is the node's clock right?"
        fields.bad(name, f"{value:.0f} lies {late:.0f} s in the future; {hint}")
    return value


def nodes(fields: Fields, name: str) -> tuple[str, ...]:
    found = [value for _, value in fields.items(name, limits.MOST_RANKS)]
    names = tuple(value for value in found if isinstance(value, str) and NODE.fullmatch(value))
    if len(names) < len(found):
        fields.bad(name, "holds something that is no node's name")
    return names


def reduced(fields: Fields) -> Reduced:
    return Reduced(
        bytes=fields.whole("bytes", *limits.REDUCED_BYTES),
        rounds=fields.whole("rounds", *limits.STEPS),
        seconds=fields.number("seconds", *limits.SECONDS, limits.IN_S),
        spread=fields.number("spread", *limits.SPREAD),
    )


def device(fields: Fields) -> Device:
    reasons = [value for _, value in fields.items("reasons", 64)]
    if not all(isinstance(reason, str) and CLASS.fullmatch(reason) for reason in reasons):
        fields.bad("reasons", "holds something that is no name")
    return Device(
        uuid=fields.text("uuid", UUID),
        node=fields.text("node", NODE),
        slot=fields.whole_or_none("slot", *limits.SLOT),
        model=fields.text("model"),
        source=fields.text("source"),
        serial=fields.text_or_none("serial"),
        pci=fields.text_or_none("pci"),
        driver=fields.text_or_none("driver"),
        memory_mib=fields.whole_or_none("memory_mib", *limits.MEMORY_MIB),
        power_cap_w=fields.number_or_none("power_cap_w", *limits.POWER_W, limits.IN_MW),
        power_cap_default_w=fields.number_or_none("power_cap_default_w", *limits.POWER_W, limits.IN_MW),
        mig=fields.flag_or_none("mig"),
        ecc=fields.flag_or_none("ecc"),
        ecc_corrected=fields.whole_or_none("ecc_corrected", *limits.COUNT),
        ecc_uncorrected=fields.whole_or_none("ecc_uncorrected", *limits.COUNT),
        retired_pages=fields.whole_or_none("retired_pages", *limits.COUNT),
        remapped_rows=fields.whole_or_none("remapped_rows", *limits.COUNT),
        repair_pending=fields.flag_or_none("repair_pending"),
        reasons=tuple(str(reason) for reason in reasons),
    )


_BOUNDS = (
    dict.fromkeys(("sm_mhz", "sm_mhz_min", "mem_mhz"), (*limits.CLOCK_MHZ, limits.IN_HZ))
    | dict.fromkeys(("power_w", "power_w_max"), (*limits.POWER_W, limits.IN_MW))
    | dict.fromkeys(("temperature_c", "temperature_c_max"), (*limits.TEMPERATURE_C, ""))
    | dict.fromkeys(
        ("util_compute", "util_memory", "sm_active", "dram_active", "tensor_active"), (*limits.SHARE, limits.IN_PERCENT)
    )
)


def telemetry(fields: Fields) -> Telemetry:
    told = {name: fields.number_or_none(name, *bounds) for name, bounds in _BOUNDS.items()}
    return Telemetry(samples=fields.whole("samples", 0, 10**9), reasons=_shares(fields), **told)


def _shares(fields: Fields) -> dict[str, float]:
    value = fields.take("reasons")
    shares = Fields({} if value is None else value, fields.at("reasons"), fields.defects)
    names = list(value)[:64] if isinstance(value, dict) else []
    found = {}
    for name in names:
        if CLASS.fullmatch(name):
            found[name] = shares.number(name, *limits.SHARE, limits.IN_PERCENT)
    shares.done()
    return found


def _telemetry_or_none(fields: Fields) -> Telemetry | None:
    value = fields.take("telemetry", needed=False)
    if value is None:
        return None
    inner = Fields(value, fields.at("telemetry"), fields.defects)
    result = telemetry(inner)
    inner.done()
    return result


def kernel(fields: Fields) -> Kernel:
    return Kernel(fields.text("app", APP), fields.text("spec", most=4000), fields.text_or_none("cls", CLASS))


def run(fields: Fields, now: float) -> TimedRun:
    uuids = [value for _, value in fields.items("uuids", 1024)]
    if not uuids or not all(isinstance(uuid, str) and UUID.fullmatch(uuid) for uuid in uuids):
        fields.bad("uuids", "is no list of at least one UUID")
    unit = fields.take("unit")
    if unit != "s":
        fields.bad("unit", f"{unit!r} is not 's': times are seconds per step")
    return TimedRun(
        app=fields.text("app", APP),
        uuids=tuple(str(uuid) for uuid in uuids),
        scope=fields.choice("scope", SCOPES),
        seconds=fields.number("seconds", *limits.SECONDS, limits.IN_S),
        measured_at=moment(fields, "measured_at", now),
        round=fields.whole("round", 0, 10**6),
        steps=fields.whole("steps", *limits.STEPS),
        telemetry=_telemetry_or_none(fields),
    )


def check(fields: Fields) -> Check:
    return Check(
        name=fields.text("name"),
        outcome=fields.choice("outcome", OUTCOMES),
        uuid=fields.text_or_none("uuid", UUID),
        said=fields.text("said", most=LONGEST_SENTENCE),
    )


def fault(fields: Fields) -> Fault:
    return Fault(
        what=fields.text("what", most=LONGEST_SENTENCE),
        uuid=fields.text_or_none("uuid", UUID),
        slot=fields.whole_or_none("slot", *limits.SLOT),
        app=fields.text_or_none("app", APP),
    )


@dataclass(slots=True)
class Body:
    """The lines of a job's part after the first."""

    defects: Defects
    now: float
    usage: list[Usage] = field(default_factory=list)
    steps: list[StepTimes] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ended_at: float = 0.0
    last: bool = False
    _lines: int = 1

    def add(self, value: object, path: str, is_last: bool) -> None:
        self._lines += 1
        fields = Fields(value, path, self.defects)
        what = fields.choice("line", ("usage", "steps", "fault", "end"))
        if is_last != (what == "end"):
            self.defects.add(path, "torn: the file has no `end` line" if is_last else "lines follow after the end")
        elif what == "usage":
            self.usage.append(self._usage(fields))
        elif what == "steps":
            self.steps.append(self._steps(fields))
        elif what == "fault":
            self.faults.append(fault(fields))
        else:
            self._end(fields)
        fields.done()

    def _usage(self, fields: Fields) -> Usage:
        uuid = fields.text("uuid", UUID)
        begun, ended = self._span(fields)
        return Usage(uuid, begun, ended, _telemetry_or_none(fields) or Telemetry(0))

    def _steps(self, fields: Fields) -> StepTimes:
        begun, ended = self._span(fields)
        return StepTimes(
            rank=fields.whole("rank", 0, 10**7),
            begun_at=begun,
            ended_at=ended,
            count=fields.whole("count", *limits.STEPS),
            seconds=fields.number("seconds", 0.0, 1e9),
            fastest=fields.number("fastest", 0.0, limits.SECONDS[1], limits.IN_S),
            slowest=fields.number("slowest", 0.0, limits.SECONDS[1], limits.IN_S),
            app=fields.text_or_none("app", APP),
        )

    def _span(self, fields: Fields) -> tuple[float, float]:
        begun, ended = moment(fields, "begun_at", self.now), moment(fields, "ended_at", self.now)
        if ended < begun:
            fields.bad("ended_at", "lies before begun_at")
        return begun, ended

    def _end(self, fields: Fields) -> None:
        self.ended_at = moment(fields, "ended_at", self.now)
        self.last = fields.flag("last")
        lines = fields.whole("lines", 2, limits.MOST_LINES)
        if lines != self._lines:
            fields.bad("lines", f"says {lines}, but there are {self._lines}: lines are missing")
