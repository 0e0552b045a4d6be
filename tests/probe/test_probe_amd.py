"""AMD's cards from the files of amdgpu, laid out as the kernel lays them out."""

from pathlib import Path

import pytest

from pal_slurm.probe.devices import DeviceSource, open_source
from pal_slurm.probe.errors import DeviceLost, NoDevices
from tests.probe.helpers import printed, probe


def write(base: Path, **files: str) -> None:
    for name, text in files.items():
        path = base / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def add_card(root: Path, number: int, pci: str, unique: str) -> Path:
    device = root / "sys/devices" / pci
    write(
        device, vendor="0x1002", **{"class": "0x120000"}, device="0x74a1", unique_id=unique, product_name="MI300X",
        serial_number=f"69{number}", mem_info_vram_total=str(192 << 30), gpu_busy_percent="95", mem_busy_percent="40",
        ras__umc_err_count="ue: 0\nce: 4", ras__gpu_vram_bad_pages="", hwmon__hwmon5__power1_average="612000000",
        hwmon__hwmon5__power1_cap="750000000", hwmon__hwmon5__temp1_input="52000", hwmon__hwmon5__temp2_input="71000",
        hwmon__hwmon5__freq1_input="2100000000", hwmon__hwmon5__freq2_input="1300000000",
    )  # fmt: skip
    drm = root / "sys/class/drm" / f"card{number}"
    drm.mkdir(parents=True)
    (drm / "device").symlink_to(device)
    (root / "sys/class/drm" / f"card{number}-DP-1").mkdir()  # a connector is no card
    node = root / f"sys/class/kfd/kfd/topology/nodes/{number}"
    write(node, gpu_id=str(100 + number), properties=f"simd_count 1\nunique_id {int(unique, 16)}")
    return device


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    add_card(tmp_path, 2, "0000:05:00.0", "b1d5e0000000000a")
    add_card(tmp_path, 1, "0000:26:00.0", "b1d5e0000000000b")
    write(tmp_path / "sys/devices/vga", vendor="0x1a03", **{"class": "0x030000"})
    (tmp_path / "sys/class/drm/card0").mkdir()
    (tmp_path / "sys/class/drm/card0/device").symlink_to(tmp_path / "sys/devices/vga")
    write(tmp_path / "sys/class/kfd/kfd/proc/4242", vram_101="1048576", vram_102="0")
    write(tmp_path / "sys/module/amdgpu", version="6.10.5")
    return tmp_path


@pytest.fixture
def source(machine: Path) -> DeviceSource:
    return open_source(f"amd:{machine}")


def test_cards_are_counted_by_their_place_on_the_bus(machine: Path) -> None:
    document = printed(probe("inventory", "--devices", f"amd:{machine}", env={"SLURMD_NODENAME": "n1"}))
    assert [(d["slot"], d["uuid"], d["pci"]) for d in document["devices"]] == [
        (0, "GPU-b1d5e0000000000a", "0000:05:00.0"),
        (1, "GPU-b1d5e0000000000b", "0000:26:00.0"),
    ]


def test_a_card_tells_what_amdgpu_knows(source: DeviceSource) -> None:
    device = source.device(1)
    assert (device.model, device.serial, device.driver, device.memory_mib) == ("MI300X", "691", "6.10.5", 196608)
    assert (device.power_cap_w, device.power_cap_default_w) == (750.0, None)
    assert (device.ecc_corrected, device.ecc_uncorrected, device.retired_pages) == (4, 0, 0)


def test_a_sample_has_the_units_of_ours(source: DeviceSource) -> None:
    sample = source.sample(1)
    assert (sample.sm_mhz, sample.mem_mhz, sample.power_w, sample.temperature_c) == (2100.0, 1300.0, 612.0, 71.0)
    assert (sample.util_compute, sample.util_memory, sample.pids) == (0.95, 0.4, (4242,))
    assert source.sample(0).pids == ()


def test_a_card_that_vanished_is_lost(machine: Path, source: DeviceSource) -> None:
    (machine / "sys/devices/0000:26:00.0/unique_id").unlink()
    with pytest.raises(DeviceLost, match="0000:26"):
        source.sample(1)
    assert source.sample(0).power_w == 612.0


def test_a_node_without_cards_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoDevices, match="is amdgpu loaded"):
        open_source(f"amd:{tmp_path}")
