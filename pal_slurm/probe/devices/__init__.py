"""Where devices are asked. In: a source by name, `nvml` or `fake:FILE`. Out: Devices and Samples.

A source is one file in this directory with a function `open(argument) -> Source`. Only the child process of
`pal_slurm.probe.asking` opens one: a driver that hangs takes that child with it, never the program.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Protocol

from pal_slurm.probe.document import Device
from pal_slurm.probe.errors import BadInput


@dataclass(frozen=True, slots=True)
class Sample:
    """What a device says at one moment; None: it does not tell."""

    sm_mhz: float | None = None
    mem_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    util_compute: float | None = None
    util_memory: float | None = None
    sm_active: float | None = None
    dram_active: float | None = None
    tensor_active: float | None = None
    reasons: tuple[str, ...] = ()
    pids: tuple[int, ...] | None = None  # processes that compute on it


class DeviceSource(Protocol):
    """Devices of one vendor. Methods raise DeviceLost for one device, NoDevices for all."""

    runs_on: str  # what torch calls them: cuda (also for ROCm) or cpu

    def count(self) -> int: ...

    def device(self, index: int) -> Device: ...

    def sample(self, index: int) -> Sample: ...

    def close(self) -> None: ...


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def open_source(text: str) -> DeviceSource:
    """`NAME` or `NAME:ARGUMENT`."""
    name, _, argument = text.partition(":")
    if name not in names():
        raise BadInput(f"--devices {name!r}: there is no such source of devices; choose one of {', '.join(names())}")
    source: DeviceSource = importlib.import_module(f"{__name__}.{name}").open(argument)
    return source
