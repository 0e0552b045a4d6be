"""gres.conf as sites write it. In: its text. Out: GresDevices by minor number, or BadInput by line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pal_slurm.errors import BadInput
from pal_slurm.slurm.nodeset import unfold

_NUMBER = re.compile(r"([0-9]+)$")
_KEYS = {"name", "type", "file", "cores", "links", "nodename", "count", "flags", "autodetect", "multiplefiles"}
MOST_GPUS = 64  # per node; more is a slip of the pen


@dataclass(frozen=True, slots=True)
class GresDevice:
    """One GPU of one node."""

    file: str
    type: str = ""
    cores: str = ""
    links: str = ""
    of_several: bool = field(default=False, compare=False)  # on its line
    where: str = field(default="", compare=False)  # file and line

    @property
    def minor(self) -> int:
        match = _NUMBER.search(self.file)
        return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class GresConf:
    """What the file says: devices per node ("" for lines without NodeName), other lines kept as they are."""

    devices: dict[str, list[GresDevice]]
    others: tuple[str, ...]
    autodetect: tuple[str, ...]  # lines that let Slurm find the GPUs by itself


def read_gres_conf(text: str, source: str = "gres.conf") -> GresConf:
    devices: dict[str, list[GresDevice]] = {}
    others: list[str] = []
    autodetect: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.split("#", 1)[0].strip()
        if not bare:
            continue
        keys = _keys(bare, f"{source}, line {number}")
        if "autodetect" in keys and keys["autodetect"].lower() != "off":
            autodetect.append(bare)
        if keys.get("name", "").lower() != "gpu":
            if "name" in keys:
                others.append(bare)
            continue
        found = list(_devices(keys, f"{source}, line {number}"))
        for node in unfold(keys.get("nodename", "")) or ("",):
            devices.setdefault(node, []).extend(found)
    for found in devices.values():
        found.sort(key=lambda device: device.minor)
        doubled = {d.file for d in found if sum(other.file == d.file for other in found) > 1}
        if doubled:
            raise BadInput(f"{source}: {sorted(doubled)[0]} stands in two lines of one node")
    return GresConf(devices, tuple(others), tuple(autodetect))


def _keys(line: str, where: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for word in line.split():
        key, found, value = word.partition("=")
        if not found or key.lower() not in _KEYS:
            raise BadInput(f"{where}: {word[:60]!r} is no `Key=value` of gres.conf")
        keys[key.lower()] = value
    return keys


def _devices(keys: dict[str, str], where: str) -> Iterator[GresDevice]:
    text = keys.get("file") or keys.get("multiplefiles", "")
    if not text:
        if "autodetect" in keys:
            return
        raise BadInput(f"{where}: a GPU line needs File=, or there is no telling which device is which slot")
    directory, slash, names = text.rpartition("/")
    files = [f"{directory}{slash}{name}" for name in unfold(names)] if "[" in text else text.split(",")
    if not files or len(files) > MOST_GPUS:
        raise BadInput(f"{where}: File={text[:80]} names {len(files)} devices; 1 to {MOST_GPUS} can be on one node")
    for file in files:
        yield GresDevice(
            file, keys.get("type", ""), keys.get("cores", ""), keys.get("links", ""), len(files) > 1, where
        )
