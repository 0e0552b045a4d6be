"""AMD's devices. In: the amdgpu driver's files under /sys. Out: Devices and Samples.

The kernel's documentation of amdgpu names these files; no library is needed. UUIDs are ROCm's own form, `GPU-` and the
card's unique number. The slot counts the cards by PCI address: gres.conf's `File=` lines are to be in that order.
`amd:DIR` reads below DIR.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from pal_slurm.probe.devices import Sample
from pal_slurm.probe.document import Device
from pal_slurm.probe.errors import DeviceLost, NoDevices
from pal_slurm.probe.words import digits, plain

_AMD, _DISPLAY, _ACCELERATOR = "0x1002", "0x03", "0x12"  # PCI's vendor number, and its classes of devices


def open(argument: str) -> Amd:
    return Amd(Path(argument or "/") / "sys")


class Amd:
    runs_on = "cuda"  # what ROCm builds of torch call it

    def __init__(self, sys: Path) -> None:
        self._sys = sys
        cards = (
            card / "device" for card in (sys / "class/drm").glob("card*") if re.fullmatch(r"card[0-9]+", card.name)
        )
        self._cards = sorted(card for card in (path.resolve() for path in cards) if self._ours(card))
        if not self._cards:
            raise NoDevices(f"{sys}/class/drm has no AMD GPU with a number of its own; is amdgpu loaded on this node?")
        self._node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]

    @staticmethod
    def _ours(card: Path) -> bool:
        kind = _text(card / "class") or ""
        return _text(card / "vendor") == _AMD and kind.startswith((_DISPLAY, _ACCELERATOR)) and bool(_unique(card))

    def close(self) -> None:
        """Nothing is held."""

    def count(self) -> int:
        return len(self._cards)

    def device(self, index: int) -> Device:
        card, unique = self._card(index)
        sensors = _sensors(card)
        errors = dict(re.findall(r"(ue|ce): ([0-9]+)", _text(card / "ras/umc_err_count") or ""))
        bad_pages = _text(card / "ras/gpu_vram_bad_pages")
        memory = _number(card / "mem_info_vram_total")
        return Device(
            uuid=f"GPU-{unique}",
            node=self._node,
            slot=index,
            model=plain(_text(card / "product_name") or f"AMD {_text(card / 'device') or 'GPU'}", 64),
            source="amd",
            serial=_short(card / "serial_number"),
            pci=card.name,
            driver=_short(self._sys / "module/amdgpu/version") or plain(os.uname().release, 64),
            memory_mib=None if memory is None else int(memory) >> 20,
            power_cap_w=_scaled(sensors / "power1_cap", 1e-6),
            power_cap_default_w=_scaled(sensors / "power1_cap_default", 1e-6),
            ecc_corrected=int(errors["ce"]) if "ce" in errors else None,
            ecc_uncorrected=int(errors["ue"]) if "ue" in errors else None,
            retired_pages=None if bad_pages is None else sum(1 for line in bad_pages.splitlines() if line.strip()),
        )

    def sample(self, index: int) -> Sample:
        card, unique = self._card(index)
        sensors = _sensors(card)
        power = _scaled(sensors / "power1_average", 1e-6)
        temperature = _scaled(sensors / "temp2_input", 1e-3)  # the junction; the edge where there is no such sensor
        return Sample(
            sm_mhz=_scaled(sensors / "freq1_input", 1e-6),
            mem_mhz=_scaled(sensors / "freq2_input", 1e-6),
            power_w=power if power is not None else _scaled(sensors / "power1_input", 1e-6),
            temperature_c=temperature if temperature is not None else _scaled(sensors / "temp1_input", 1e-3),
            util_compute=_scaled(card / "gpu_busy_percent", 0.01),
            util_memory=_scaled(card / "mem_busy_percent", 0.01),
            pids=self._pids(unique),
        )

    def _card(self, index: int) -> tuple[Path, str]:
        card = self._cards[index]
        unique = _unique(card)
        if not unique:
            raise DeviceLost(f"the GPU at {card.name} tells its number no more; it fell off the bus or is being reset")
        return card, unique

    def _pids(self, unique: str) -> tuple[int, ...] | None:
        """Processes with memory on the card: kfd has a file per process and card, named by kfd's own number."""
        kfd = self._sys / "class/kfd/kfd"
        number = next((n for n, found in _kfd_nodes(kfd) if found == unique), None)
        if number is None:
            return None
        used = (kfd / "proc").glob(f"*/vram_{number}")
        return tuple(sorted(int(p.parent.name) for p in used if digits(p.parent.name) and (_number(p) or 0) > 0))


def _kfd_nodes(kfd: Path) -> list[tuple[str, str]]:
    """(kfd's number, unique number in hex) of each card."""
    found = []
    for node in (kfd / "topology/nodes").glob("*"):
        unique = re.search(r"^unique_id ([0-9]+)$", _text(node / "properties") or "", re.MULTILINE)
        number = _text(node / "gpu_id")
        if unique and number and int(unique[1]):
            found.append((number, f"{int(unique[1]):016x}"))
    return found


def _unique(card: Path) -> str:
    text = (_text(card / "unique_id") or "").removeprefix("0x").lower()
    return text if re.fullmatch(r"[0-9a-f]{1,16}", text) else ""


def _sensors(card: Path) -> Path:
    return next(iter(sorted((card / "hwmon").glob("hwmon*"))), card / "hwmon")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _short(path: Path) -> str | None:
    text = _text(path)
    return plain(text, 64) if text else None


def _number(path: Path) -> float | None:
    text = _text(path)
    return float(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else None


def _scaled(path: Path, factor: float) -> float | None:
    number = _number(path)
    return None if number is None else round(number * factor, 4)
