"""The NVML file through the real nvidia-ml-py, against a libnvidia-ml.so.1 of our own that fails on demand."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pal_slurm.probe.children import ProbeChild
from tests.probe.helpers import ROOT, environment, faults_of, printed, probe

SOURCE = ROOT / "tests/fakes/nvml/nvml.c"
CARD = {
    "uuid": "GPU-{i}", "serial": "16500{i}", "minor": "{i}", "name": "NVIDIA H100 80GB HBM3",
    "pci": "0000000{i}:18:00.0", "memory": str(80 << 30),
    "cap": "700000", "cap.default": "700000", "mig": "0", "ecc": "1", "ecc.corrected": "3",
    "ecc.uncorrected": "0", "rows.corrected": "1", "rows.uncorrected": "2", "rows.pending": "1", "reasons": "0x24",
    "power": "312500", "sm": "1755", "mem": "2619", "temperature": "61", "util": "93", "util.memory": "41",
    "pids": "4242", "gpm": "1", "gpm.2": "88", "gpm.10": "37", "gpm.5": "12",
}  # fmt: skip


def compiled(directory: Path) -> Path:
    """A directory that holds libnvidia-ml.so.1."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("NO C COMPILER: NVML is not tested at all on this machine; install gcc")
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", str(directory / "libnvidia-ml.so.1"), str(SOURCE)], check=True)
    return directory


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


class Node:
    """Two H100 as the fake library tells them; `say` changes what it tells."""

    def __init__(self, library: Path, path: Path) -> None:
        self.library, self._path = library, path
        lines = ["count=2", "driver=550.54.15"]
        lines += [f"{i}.{key}={value.format(i=i)}" for i in range(2) for key, value in CARD.items()]
        path.write_text("\n".join(lines) + "\n")

    @property
    def env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.library), "FAKE_NVML": str(self._path), "SLURMD_NODENAME": "gpu07"}

    def say(self, *lines: str) -> None:
        with self._path.open("a") as file:
            file.write("".join(line + "\n" for line in lines))

    def take_away(self, *keys: str) -> None:
        kept = [line for line in self._path.read_text().splitlines() if line.split("=")[0] not in keys]
        self._path.write_text("\n".join(kept) + "\n")

    def inventory(self, *words: str) -> dict[str, Any]:
        return printed(probe("inventory", *words, env=self.env))


@pytest.fixture
def node(library: Path, tmp_path: Path) -> Node:
    return Node(library, tmp_path / "gpus")


def test_the_inventory_tells_all_that_nvml_knows(node: Node) -> None:
    document = node.inventory()
    assert document["faults"] == []
    assert document["devices"][1] == {
        "uuid": "GPU-1", "node": "gpu07", "slot": 1, "model": "NVIDIA H100 80GB HBM3", "source": "nvml",
        "serial": "165001", "pci": "00000001:18:00.0", "driver": "550.54.15", "memory_mib": 81920, "power_cap_w": 700.0,
        "power_cap_default_w": 700.0, "mig": False, "ecc": True, "ecc_corrected": 3, "ecc_uncorrected": 0,
        "retired_pages": None, "remapped_rows": 3, "repair_pending": True, "reasons": ["sw_power_cap", "sw_thermal"],
    }  # fmt: skip


def test_the_slot_is_the_minor_number_and_not_the_order_on_the_bus(node: Node) -> None:
    node.say("0.minor=5", "1.minor=2")
    assert [device["slot"] for device in node.inventory()["devices"]] == [5, 2]


def test_an_old_card_tells_less_and_that_is_no_fault(node: Node) -> None:
    node.take_away("0.serial", "0.mig", "0.ecc", "0.rows.corrected", "0.reasons", "0.ecc.corrected")
    node.say("0.pages.single=2", "0.pages.double=1", "0.pages.pending=0", "0.old.reasons=0x208")
    device = node.inventory()["devices"][0]
    assert device["serial"] is None and device["mig"] is None and device["remapped_rows"] is None
    assert device["retired_pages"] == 3 and device["repair_pending"] is False
    assert device["reasons"] == ["hw_slowdown", "other"]


def test_a_gpu_that_fell_off_the_bus_is_a_sentence(node: Node) -> None:
    node.say("0.fail.nvmlDeviceGetHandleByIndex_v2=15")
    document = node.inventory()
    assert [device["uuid"] for device in document["devices"]] == ["GPU-1"]
    assert faults_of(document) == ["NVML device 0 does not answer: GPU is lost"]


def test_a_gpu_that_gets_lost_in_the_middle_is_a_sentence(node: Node) -> None:
    node.say("1.fail.nvmlDeviceGetEnforcedPowerLimit=16")
    document = node.inventory()
    assert len(document["devices"]) == 1
    assert "nvmlDeviceGetEnforcedPowerLimit" in faults_of(document)[0]


@pytest.mark.parametrize(
    ("trouble", "said"), [("hang", "gave no answer within 6 s"), ("crash", "was killed by SIGABRT")]
)
def test_a_driver_that_hangs_or_crashes_costs_one_gpu(node: Node, trouble: str, said: str) -> None:
    node.say(f"0.{trouble}.nvmlDeviceGetEccMode=1")
    document = node.inventory("--patience", "6")  # a busy machine, too, lists them in that time
    assert [device["uuid"] for device in document["devices"]] == ["GPU-1"]
    assert len(document["faults"]) == 1
    assert faults_of(document)[0].startswith(f"device number 0 of 2 can't be asked: it {said}")


def test_a_gpu_of_another_job_is_left_out_without_a_word(node: Node) -> None:
    node.say("0.fail.nvmlDeviceGetHandleByIndex_v2=4")
    document = node.inventory()
    assert len(document["devices"]) == 1 and document["faults"] == []


def test_a_node_without_the_driver_says_what_to_do(tmp_path: Path) -> None:
    result = probe("inventory", env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert result.returncode == 69
    assert "is the NVIDIA driver loaded on this node?" in result.stderr


def test_a_driver_that_does_not_answer_at_all_is_told_in_time(node: Node) -> None:
    node.say("hang.nvmlInitWithFlags=1")
    result = probe("inventory", "--patience", "1", env=node.env)
    assert result.returncode == 69
    assert "no answer within 1 s" in result.stderr


@pytest.fixture
def sampling(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProbeChild]:
    for name, value in environment(node.env).items():
        monkeypatch.setenv(name, value)
    child = ProbeChild.ours("sample", "nvml", "0.05", "0,1")
    yield child
    child.end()


def test_samples_carry_units_of_ours_and_gpm_shares_from_the_second_one_on(sampling: ProbeChild) -> None:
    first, _, second = (sampling.answer(20) for _ in range(3))
    assert first["sample"] == {
        "sm_mhz": 1755, "mem_mhz": 2619, "power_w": 312.5, "temperature_c": 61, "util_compute": 0.93,
        "util_memory": 0.41, "reasons": ["sw_power_cap", "sw_thermal"], "pids": [4242],
    }  # fmt: skip
    assert second["sample"] == {**first["sample"], "sm_active": 0.88, "dram_active": 0.37, "tensor_active": 0.12}


def test_a_gpu_that_is_lost_while_it_is_sampled_does_not_end_the_sampling(sampling: ProbeChild, node: Node) -> None:
    assert "sample" in sampling.answer(20)
    node.say("0.fail.nvmlDeviceGetPowerUsage=15")
    answers = [sampling.answer(20) for _ in range(8)]
    assert any("fault" in answer and answer["index"] == 0 for answer in answers)
    assert "sample" in next(answer for answer in reversed(answers) if answer["index"] == 1)


def test_a_kernel_runs_on_the_one_gpu_that_it_is_timed_for(node: Node, tmp_path: Path) -> None:
    program = tmp_path / "bench.py"
    program.write_text(
        "import json, os\n"
        "gpu = os.environ['CUDA_VISIBLE_DEVICES']\n"
        "print(json.dumps({'seconds': {'GPU-0': 0.5, 'GPU-1': 0.75}[gpu]}))\n"
    )
    spec = f"mine=command@A:{sys.executable} {program}"
    words = ["--scope", "gpu", "--rounds", "1", "--warm", "0", "--run", "0.1", "--cool-wait", "0"]
    document = printed(probe("bench", "-k", spec, *words, env=node.env))
    assert {run["uuids"][0]: run["seconds"] for run in document["runs"]} == {"GPU-0": 0.5, "GPU-1": 0.75}
    assert document["kernels"] == [{"app": "mine", "spec": spec, "cls": "A"}]


@pytest.mark.parametrize(
    ("trouble", "said"),
    [("fail", "to nvmlDeviceGetPowerUsage"), ("hang", "it is not sampled any more: it gave no answer")],
)
def test_a_gpu_that_gets_into_trouble_in_the_middle_is_a_sentence(
    node: Node, tmp_path: Path, trouble: str, said: str
) -> None:
    program = tmp_path / "bench.py"
    program.write_text(
        "import json, os, time\n"
        "if os.environ['PAL_PROBE_GPU'] == 'GPU-1':\n"
        f"    open(os.environ['FAKE_NVML'], 'a').write('0.{trouble}.nvmlDeviceGetPowerUsage=15\\n')\n"
        "    time.sleep(2)\n"
        "print(json.dumps({'seconds': 0.5}))\n"
    )
    words = ["--scope", "gpu", "--rounds", "2", "--warm", "0", "--run", "0.1", "--cool-wait", "0"]
    words += ["--sample", "0.05", "--patience", "6"]
    spec = f"mine=command:{sys.executable} {program}"
    document = printed(probe("bench", "-k", spec, *words, env=node.env))
    assert len(document["runs"]) == 4, "the kernel itself ran well on both"
    assert [fault["uuid"] for fault in document["faults"]] == ["GPU-0"]
    assert said in faults_of(document)[0]
    assert document["runs"][-1]["telemetry"]["samples"] > 10, "the other GPU is still sampled"


def test_a_gpu_that_is_cut_into_instances_is_not_measured(node: Node) -> None:
    node.say("0.mig=1")
    words = ["--scope", "gpu", "--rounds", "1", "--warm", "0", "--run", "0.1", "--cool-wait", "0"]
    document = printed(probe("bench", "-k", "mine=command:echo {}", *words, env=node.env))
    assert {run["uuids"][0] for run in document["runs"]} == {"GPU-1"}
    assert "MIG is on" in faults_of(document)[0]


def test_the_fake_library_is_asked_through_the_real_binding(node: Node) -> None:
    code = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    found = subprocess.run([sys.executable, "-c", code], env={**os.environ, **node.env}, capture_output=True, text=True)
    assert json.loads(found.stdout) == 2
