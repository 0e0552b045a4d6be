"""Devices that a file describes: for mini-clusters and tests. In: a description. Out: Devices and Samples.

Two kinds of descriptions. A mini-cluster's directory holds speeds.json (hidden true slowness by node, slot and class)
and spec.json (models); `fake` alone finds it through SLURM_CONF, as palwork does. Or one file for one node:

    {"node": "n1", "devices": [{"uuid": "GPU-1", "slot": 0, "model": "a100", "speeds": {"A": 1.1}, "fault": "hang"}]}

`fault` is `lost` (it fell off the bus) or `hang` (it never answers). cards.json in a mini-cluster's directory,
{"n3": {"g1": "GPU-..."}}, names cards that are not the ones born in that slot: so a card is moved. Its apps.json,
{"resnet": {"util_compute": 0.9, "util_memory": 0.3}}, tells what a device says while PAL_APP runs on it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
import uuid as uuids
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pal_slurm.probe.devices import Sample
from pal_slurm.probe.document import Device
from pal_slurm.probe.errors import BadInput, DeviceLost

_FAMILY = uuids.UUID("9f2b7c1e-5f0a-4d58-9a3e-0d6c8f1b2a34")  # any constant: names become the same UUIDs everywhere


@dataclass(frozen=True, slots=True)
class FakeDevice:
    uuid: str
    slot: int
    model: str
    speeds: dict[str, float] = field(default_factory=dict)
    fault: str = ""
    sample: dict[str, float] = field(default_factory=dict)
    power_cap_w: float = 400.0
    driver: str = "fake-1"
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    node: str
    devices: tuple[FakeDevice, ...]

    def by_uuid(self, uuid: str) -> FakeDevice:
        for device in self.devices:
            if device.uuid == uuid:
                return device
        raise BadInput(f"the description of fake devices has no card {uuid}")


def open(argument: str) -> Fake:
    return Fake(describe(argument))


class Fake:
    runs_on = "cpu"

    def __init__(self, description: Description) -> None:
        self._description = description
        self._devices = visible(description.devices)

    def close(self) -> None:
        """Nothing is held."""

    def count(self) -> int:
        return len(self._devices)

    def device(self, index: int) -> Device:
        fake = self._alive(index)
        return Device(
            uuid=fake.uuid,
            node=self._description.node,
            slot=fake.slot,
            model=fake.model,
            source="fake",
            pci=f"00000000:{fake.slot + 16:02X}:00.0",
            driver=fake.driver,
            power_cap_w=fake.power_cap_w,
            power_cap_default_w=400.0,
            mig=False,
        )

    def sample(self, index: int) -> Sample:
        fake = self._alive(index)
        usual = {"sm_mhz": 1410.0, "mem_mhz": 1593.0, "power_w": 250.0, "temperature_c": 45.0}
        return Sample(**{**usual, **fake.sample}, pids=fake.pids)  # type: ignore[arg-type]

    def _alive(self, index: int) -> FakeDevice:
        fake = self._devices[index]
        if fake.fault == "lost":
            raise DeviceLost(f"slot {fake.slot}: the GPU has fallen off the bus")
        while fake.fault == "hang":
            time.sleep(3600)
        return fake


def visible(devices: tuple[FakeDevice, ...]) -> tuple[FakeDevice, ...]:
    """Those that Slurm gave to this job or step; all, where nobody said."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        given = os.environ.get(name, "")
        if re.fullmatch(r"[0-9]+(,[0-9]+)*", given):
            slots = {int(slot) for slot in given.split(",")}
            return tuple(device for device in devices if device.slot in slots)
    return devices


def describe(argument: str) -> Description:
    """The devices of this node: from a mini-cluster's directory, or from one file."""
    conf = os.environ.get("SLURM_CONF", "")
    if not argument and not conf:
        raise BadInput("--devices fake: name a description (fake:FILE), or set SLURM_CONF to a mini-cluster's")
    path = Path(argument) if argument else Path(conf).parent.parent
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    try:
        return _of_cluster(path, node) if path.is_dir() else _of_file(path)
    except OSError as error:
        raise BadInput(f"--devices fake: {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"--devices fake: {path}: not a description of devices: {error!r}") from error


def _of_file(path: Path) -> Description:
    data: dict[str, Any] = json.loads(path.read_text())
    devices = tuple(
        FakeDevice(
            uuid=str(each["uuid"]),
            slot=int(each["slot"]),
            model=str(each.get("model", "fake")),
            speeds={str(cls): float(speed) for cls, speed in each.get("speeds", {}).items()},
            fault=str(each.get("fault", "")),
            sample={str(name): float(value) for name, value in each.get("sample", {}).items()},
            power_cap_w=float(each.get("power_cap_w", 400.0)),
            driver=str(each.get("driver", "fake-1")),
            pids=tuple(int(pid) for pid in each.get("pids", ())),
        )
        for each in data["devices"]
    )
    return Description(str(data["node"]), devices)


def _of_cluster(path: Path, node: str) -> Description:
    speeds: dict[str, dict[str, dict[str, float]]] = json.loads((path / "speeds.json").read_text())
    spec: dict[str, Any] = json.loads((path / "spec.json").read_text())
    cards_file = path / "cards.json"
    cards = json.loads(cards_file.read_text()) if cards_file.exists() else {}
    if node not in speeds:
        raise BadInput(f"--devices fake: {path}/speeds.json has no node {node!r}; is SLURMD_NODENAME set?")
    model, busy = _model(spec, node), _busy(path / "apps.json")
    devices = []
    for gpu, by_class in speeds[node].items():
        born = str(uuids.uuid5(_FAMILY, f"{spec['name']}/{node}/{gpu}"))
        card = cards.get(node, {}).get(gpu, f"GPU-{born}")
        devices.append(
            FakeDevice(uuid=card, slot=int(gpu.removeprefix("g")), model=model, speeds=by_class, sample=busy)
        )
    return Description(node, tuple(devices))


def _busy(path: Path) -> dict[str, float]:
    apps: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    return {name: float(value) for name, value in apps.get(os.environ.get("PAL_APP", ""), {}).items()}


def _model(spec: dict[str, Any], node: str) -> str:
    """Models are dealt to nodes n1, n2 ... in the order in which the spec names them."""
    seen = 0
    for model, count in spec["models"].items():
        seen += int(count)
        if int(node.removeprefix("n")) <= seen:
            return str(model)
    return "a100"
