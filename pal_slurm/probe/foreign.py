"""What the importers share. In: results as other tools tell them. Out: runs in seconds, on devices that are known.

A rate becomes the time of one unit of work: a score is a ratio to the GPU's peers, in which the unit of work cancels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pal_slurm.probe import limits
from pal_slurm.probe.document import Check, Device, Document, Fault, Kernel, TimedRun
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.fields import Defects
from pal_slurm.probe.reading import decode
from pal_slurm.probe.words import NODE, UUID, app_name, plain

TIMES = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_RATES = ("flops", "flop/s", "b/s", "bps", "/s", "it/s", "hz", "per second")


@dataclass(frozen=True, slots=True)
class Context:
    known: tuple[Device, ...]  # from inventories
    node: str  # where the file does not tell
    measured_at: float  # where the file does not tell


class Book:
    """What an importer fills. Results that can't be given to a GPU are counted and told, not guessed."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._devices = {device.uuid: device for device in context.known}
        self._used: dict[str, None] = {}
        self._kernels: dict[str, Kernel] = {}
        self._runs: list[TimedRun] = []
        self._checks: list[Check] = []
        self._faults: dict[str, Fault] = {}

    def document(self) -> Document:
        times = [run.measured_at for run in self._runs] or [self.context.measured_at]
        return Document(
            kind="import",
            made_by="",
            begun_at=min(times),
            ended_at=max(times),
            devices=tuple(self._devices[uuid] for uuid in self._used),
            kernels=tuple(self._kernels.values()),
            runs=tuple(self._runs),
            checks=tuple(self._checks),
            faults=tuple(self._faults.values()),
        )

    def of_node(self, node: str) -> list[Device]:
        """Its devices, as the inventory counts them: by PCI address, as CUDA and DCGM do."""
        devices = [device for device in self._devices.values() if device.node == node]
        return sorted(devices, key=lambda device: (device.pci or "", device.slot if device.slot is not None else -1))

    def at(self, node: str, index: int) -> Device | None:
        devices = self.of_node(node)
        if index < len(devices):
            return devices[index]
        self.fault(f"node {plain(node, 80)}: no inventory tells which card is its number {index}; use --inventory")
        return None

    def slot(self, node: str, slot: int) -> Device | None:
        for device in self.of_node(node):
            if device.slot == slot:
                return device
        self.fault(f"node {plain(node, 80)}: no inventory tells which card sits in its slot {slot}; use --inventory")
        return None

    def by_serial(self, serial: str) -> Device | None:
        return next((device for device in self._devices.values() if serial and device.serial == serial), None)

    def by_uuid(self, uuid: str, node: str, slot: int | None, model: str) -> Device:
        known = self._devices.get(uuid)
        if known is None:
            known = Device(uuid, node, slot, model, "import")
        elif slot is not None and known.slot is None:
            known = replace(known, slot=slot)
        self._devices[uuid] = known
        return known

    def run(self, app: str, devices: Iterable[Device], scope: str, seconds: float, at: float, round_: int = 0) -> None:
        name, uuids = app_name(app), tuple(device.uuid for device in devices)
        if not uuids:
            return
        if not (math.isfinite(seconds) and limits.SECONDS[0] <= seconds <= limits.SECONDS[1]):
            self.fault(f"{name}: {seconds} s per step can't be", uuids[0])
            return
        self._kernels.setdefault(name, Kernel(name, plain(app, 200)))
        self._used |= dict.fromkeys(uuids)
        self._runs.append(TimedRun(name, uuids, scope, seconds, at, round_))

    def check(self, name: str, outcome: str, device: Device | None, said: str) -> None:
        if device is not None:
            self._used |= {device.uuid: None}
        uuid = None if device is None else device.uuid
        self._checks.append(Check(plain(name, 64), outcome, uuid, plain(said)))

    def fault(self, what: str, uuid: str | None = None) -> None:
        self._faults.setdefault(what, Fault(plain(what), uuid))


def seconds_of(value: float, unit: str) -> float | None:
    """Seconds per step or unit of work; None: the unit says neither a time nor a rate."""
    if not math.isfinite(value) or value <= 0:
        return None
    word = unit.strip().lower()
    if word in TIMES:
        return value * TIMES[word]
    return 1.0 / value if any(word.endswith(rate) for rate in _RATES) else None


def number_in(value: object) -> float | None:
    """None: it is none, or one without an end."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def json_of(data: bytes, tool: str) -> Any:
    """Foreign JSON; what stands before and after the object (a tool's own remarks) is cut away."""
    first, last = data.find(b"{"), data.rfind(b"}")
    defects = Defects()
    value = decode(data[first : last + 1] if first >= 0 else data, "", defects)
    if defects.found or not isinstance(value, dict):
        raise BadInput(f"{tool}: the file is not what it writes: {defects.found[0] if defects.found else 'no object'}")
    return value


def node_name(text: object, tool: str) -> str:
    if isinstance(text, str) and NODE.fullmatch(text):
        return text
    raise BadInput(f"{tool}: {plain(json.dumps(text, default=str), 80)} is no node's name; give it with --node")


def uuid_of(text: str) -> str | None:
    return text if UUID.fullmatch(text) else None
