"""The benchmark on fake devices: what it measures, in which order, and what a broken GPU or kernel leads to."""

import importlib.util
import json
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pal_slurm.probe import kernels
from pal_slurm.probe.cooling import CoolDown, cool_down
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.kernels import Target
from pal_slurm.probe.reading import read
from tests.probe.helpers import ROOT, card, command, describe, environment, faults_of, printed, probe

QUICK = ["--warm", "0", "--run", "0.05", "--cool-wait", "0"]
RECKONED = ",base=0.02,noise=0,pace=0"
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch IS NOT INSTALLED: its kernels are not tested here; pip install torch==2.13.0",
)


def bench(source: str, *words: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    document = printed(probe("bench", "--devices", source, *QUICK, *words, env=env))
    assert read(json.dumps(document).encode(), time.time()).defects == ()
    return document


def seconds(document: dict[str, Any], app: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for run in document["runs"]:
        if run["app"] == app:
            found.setdefault(run["uuids"][0], []).append(run["seconds"])
    return {uuid: statistics.median(values) for uuid, values in found.items()}


def test_run_times_follow_the_hidden_speeds(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0), card(1, speeds={"A": 1.3, "B": 1.1}))
    document = bench(source, "-k", f"fake:A{RECKONED}", "-k", f"fake:B{RECKONED}", "--rounds", "1")
    assert seconds(document, "fake-A") == pytest.approx({"GPU-0": 0.02, "GPU-1": 0.026})
    assert seconds(document, "fake-B") == pytest.approx({"GPU-0": 0.02, "GPU-1": 0.022})
    assert [kernel["cls"] for kernel in document["kernels"]] == ["A", "B"]


def test_a_fake_kernel_takes_its_time_and_is_measured_by_the_clock(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0))
    document = bench(source, "-k", "fake:A,base=0.01,noise=0.01", "--rounds", "1", "--scope", "gpu")
    assert seconds(document, "fake-A")["GPU-0"] >= 0.0095


def test_noise_is_there_and_small(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0))
    document = bench(source, "-k", "fake:A,base=0.05,noise=0.02,pace=0", "--rounds", "8", "--scope", "gpu")
    values = [run["seconds"] for run in document["runs"]]
    assert 0 < statistics.stdev(values) / 0.05 < 0.1


def test_kernels_and_gpus_take_turns_and_the_node_is_measured_as_a_whole_too(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0), card(1))
    document = bench(source, "-k", f"fake:A{RECKONED}", "-k", f"fake:B{RECKONED}", "--rounds", "2")
    order = [(run["round"], run["scope"], run["app"], run["uuids"][0]) for run in document["runs"]]
    one_round = [
        (scope, app, uuid) for scope in ("gpu", "node") for app in ("fake-A", "fake-B") for uuid in ("GPU-0", "GPU-1")
    ]
    assert order == [(number, *turn) for number in (0, 1) for turn in one_round]


def test_a_single_gpu_is_not_measured_again_as_a_node(tmp_path: Path) -> None:
    document = bench(describe(tmp_path / "gpus", card(0)), "-k", f"fake:A{RECKONED}", "--rounds", "1")
    assert [run["scope"] for run in document["runs"]] == ["gpu"]


def test_samples_stand_beside_each_run(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0, sample={"temperature_c": 61.0, "power_w": 333.0}))
    words = ["-k", "fake:A,base=0.2,noise=0", "--rounds", "1", "--sample", "0.02", "--run", "0.6"]
    telemetry = bench(source, *words)["runs"][0]["telemetry"]
    assert telemetry["samples"] >= 5
    assert (telemetry["temperature_c_max"], telemetry["power_w"], telemetry["sm_mhz_min"]) == (61.0, 333.0, 1410.0)


def test_a_gpu_that_hangs_is_a_sentence_and_the_others_are_measured(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0, fault="hang"), card(1, fault="lost"), card(2))
    document = bench(source, "-k", f"fake:A{RECKONED}", "--rounds", "1", "--patience", "1")
    assert [device["uuid"] for device in document["devices"]] == ["GPU-2"]
    assert len(document["runs"]) == 1
    assert faults_of(document) == [
        "device number 0 of 3 can't be asked: it gave no answer within 1 s",
        "slot 1: the GPU has fallen off the bus",
    ]


def test_a_kernel_that_hangs_is_given_up_and_the_gpu_after_its_second_time(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0))
    stuck = "stuck=command:sleep 1000"
    words = ["-k", stuck, "-k", f"fake:A{RECKONED}", "--rounds", "3", "--patience", "1"]
    document = bench(source, *words)
    assert seconds(document, "fake-A") == {"GPU-0": 0.02}, "the other kernel was measured between the two"
    assert [fault["app"] for fault in document["faults"]] == ["stuck", "stuck", None]
    assert "nothing more is run on it" in faults_of(document)[-1]


def test_a_kernel_that_says_why_it_can_not_run_is_asked_once(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0, speeds={"B": 1.0}))
    document = bench(source, "-k", f"fake:A{RECKONED}", "-k", f"fake:B{RECKONED}", "--rounds", "3", "--scope", "gpu")
    assert len(document["runs"]) == 3
    assert faults_of(document) == ["the description of GPU-0 has no speed for class A, but for ['B']"]


def test_when_nothing_was_measured_the_exit_code_says_so(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0, speeds={}))
    result = probe("bench", "--devices", source, *QUICK, "-k", "fake:A", "--rounds", "1")
    assert result.returncode == 69
    assert "slot 0: the description of GPU-0 has no speed" in result.stderr


def test_a_node_that_is_wanted_back_keeps_what_it_measured(tmp_path: Path) -> None:
    source, out = describe(tmp_path / "gpus", card(0)), tmp_path / "out.json"
    mark = tmp_path / "mark"
    kernels_in_turn = [f"fast=fake:A{RECKONED}", f"seen=command:touch {mark}", "slow=fake:B,base=30,pace=1"]
    words = [word for kernel in kernels_in_turn for word in ("-k", kernel)]
    program = command("bench", "--devices", source, *QUICK, *words, "-o", str(out))
    running = subprocess.Popen(program, env=environment(), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 0
    document = json.loads(out.read_text())
    assert [run["app"] for run in document["runs"]] == ["fast"]
    assert "SIGTERM came: the rest of the rounds was left out" in faults_of(document)


def test_the_time_that_may_be_used_ends_the_rounds(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0))
    document = bench(source, "-k", "fake:A,base=0.2,noise=0", "--rounds", "1000", "--most", "1.5")
    assert 1 <= len(document["runs"]) < 100
    assert faults_of(document)[0].startswith("the time of 2 s was over in round")


def test_a_job_sees_the_devices_that_slurm_gave_it(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", *(card(slot) for slot in range(4)))
    env = {"CUDA_VISIBLE_DEVICES": "1,3", "SLURM_JOB_ID": "77"}
    document = printed(probe("inventory", "--devices", source, env=env))
    assert [device["slot"] for device in document["devices"]] == [1, 3]
    assert document["job"] == "77"


def minicluster(tmp_path: Path, **more: object) -> dict[str, str]:
    speeds = {f"n{n}": {f"g{g}": {"A": 1 + n / 10, "B": 1.0} for g in range(2)} for n in (1, 2)}
    (tmp_path / "speeds.json").write_text(json.dumps(speeds))
    (tmp_path / "spec.json").write_text(json.dumps({"name": "x", "models": {"a100": 1, "v100": 1}, **more}))
    return {"SLURM_CONF": str(tmp_path / "etc/slurm.conf"), "SLURMD_NODENAME": "n2"}


def test_a_node_of_a_mini_cluster_is_found_through_slurm_conf(tmp_path: Path) -> None:
    env = minicluster(tmp_path)
    document = bench("fake", "-k", f"fake:A{RECKONED}", "--rounds", "1", "--scope", "gpu", env=env)
    assert [(d["node"], d["slot"], d["model"]) for d in document["devices"]] == [("n2", 0, "v100"), ("n2", 1, "v100")]
    assert list(seconds(document, "fake-A").values()) == pytest.approx([0.024, 0.024])


def test_a_card_of_a_mini_cluster_keeps_its_uuid_when_it_is_moved(tmp_path: Path) -> None:
    env = minicluster(tmp_path)
    born = [device["uuid"] for device in printed(probe("inventory", "--devices", "fake", env=env))["devices"]]
    assert born == [d["uuid"] for d in printed(probe("inventory", "--devices", "fake", env=env))["devices"]]
    (tmp_path / "cards.json").write_text(json.dumps({"n1": {"g0": born[1]}}))
    moved = printed(probe("inventory", "--devices", "fake", env={**env, "SLURMD_NODENAME": "n1"}))["devices"]
    assert moved[0]["uuid"] == born[1] and moved[1]["uuid"] not in born


def test_any_program_that_prints_its_steps_is_a_kernel(tmp_path: Path) -> None:
    program = tmp_path / "steps.py"
    program.write_text(
        "import json\nprint('loading')\nprint(json.dumps({'seconds': 9.0}))\n"
        "for i in range(1000):\n    print(json.dumps({'step': i, 'seconds': 0.25}), flush=True)\n"
    )
    source = describe(tmp_path / "gpus", card(0))
    document = bench(source, "-k", f"mine=command@B:{sys.executable} {program}", "--rounds", "1", "--run", "1")
    assert [(run["app"], run["seconds"], run["steps"]) for run in document["runs"]] == [("mine", 0.25, 4)]


def test_palwork_is_a_kernel_as_it_is(tmp_path: Path) -> None:
    env = minicluster(tmp_path, rack_size=8)
    spec = f"palwork=command:{sys.executable} {ROOT / 'scripts/palwork'} --steps 2 --base 0.01"
    document = bench("fake", "-k", spec, "--rounds", "1", "--scope", "gpu", env={**env, "CUDA_VISIBLE_DEVICES": "0"})
    assert document["runs"][0]["steps"] == 2
    assert document["runs"][0]["seconds"] >= 0.012


@pytest.mark.parametrize("line", ['{"seconds": -1}', '{"seconds": NaN}', '{"seconds": "x"}', '{"steps": 0}'])
def test_a_program_that_prints_nonsense_is_told_so(tmp_path: Path, line: str) -> None:
    (tmp_path / "line").write_text(line)
    source = describe(tmp_path / "gpus", card(0))
    document = bench(source, "-k", f"mine=command:cat {tmp_path / 'line'}", "--rounds", "1")
    assert document["runs"] == [] and "which is no step" in faults_of(document)[0]


@pytest.mark.parametrize("name", ["gemm:n=16", "stream:n=1000", "pagerank:nodes=100,degree=4"])
def test_kernels_on_cpus_need_numpy_only(name: str) -> None:
    spec = kernels.parse(name)
    done = kernels.prepare(spec.name, Target("x", "cpu", "fake"), spec.argument).run(3)
    assert done.steps == 3 and done.seconds > 0


@needs_torch
@pytest.mark.parametrize("name", ["resnet", "resnet:batch=2,image=64,depth=50", "transformer:layers=2"])
def test_the_training_kernels_run_in_torch(name: str) -> None:
    spec = kernels.parse(name)
    done = kernels.prepare(spec.name, Target("x", "cpu", "fake"), spec.argument).run(2)
    assert done.steps == 2 and done.seconds > 0


def test_without_torch_its_kernels_say_what_to_do(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "torch.py").write_text("raise ImportError('No module named torch')\n")
    source = describe(tmp_path / "gpus", card(0))
    document = bench(
        source, "-k", "resnet", "-k", f"fake:A{RECKONED}", "--rounds", "2", env={"PYTHONPATH": f"{hidden}:{ROOT}"}
    )
    assert "this kernel needs torch, which can't be imported here" in faults_of(document)[0]
    assert len(document["runs"]) == 2


@pytest.mark.parametrize(
    ("text", "app", "name", "cls", "argument"),
    [
        ("resnet", "resnet", "resnet", None, ""),
        ("resnet@A:batch=8", "resnet", "resnet", "A", "batch=8"),
        ("big=gemm@C:n=4096", "big", "gemm", "C", "n=4096"),
        ("fake:B,noise=0", "fake-B", "fake", "B", "B,noise=0"),
        ("mine=command@A:./x --a=b:c", "mine", "command", "A", "./x --a=b:c"),
        ("command:/opt/bin/hpl -n 4", "hpl", "command", None, "/opt/bin/hpl -n 4"),
    ],
)
def test_a_kernel_is_asked_for_in_one_word(text: str, app: str, name: str, cls: str | None, argument: str) -> None:
    spec = kernels.parse(text)
    assert (spec.app, spec.name, spec.cls, spec.argument) == (app, name, cls, argument)


@pytest.mark.parametrize("text", ["", "nothing", "a b=resnet", "resnet@a b", "=gemm", "../x"])
def test_a_kernel_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        kernels.parse(text)


@pytest.mark.parametrize("text", ["gemm:m=3", "gemm:n=x", "gemm:n", "gemm:n=0"])
def test_a_kernel_names_the_option_that_is_wrong(text: str) -> None:
    spec = kernels.parse(text)
    with pytest.raises(BadInput, match="the kernel"):
        kernels.prepare(spec.name, Target("x", "cpu", "fake"), spec.argument)


class Stopwatch:
    """A clock that moves by sleeping only."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@pytest.mark.parametrize(
    ("celsius", "waited"),
    [
        (lambda t: 40.0, 0.0),  # cool from the start
        (lambda t: 80.0 - t, 30.0),  # one degree per second: 50 after 30 s
        (lambda t: max(70.0, 80.0 - t), 20.0),  # a warm room: it settles at 70 after 10 s
        (lambda t: 200.0 - t, 60.0),  # never long enough
        (lambda t: None, 0.0),  # no thermometer
    ],
)
def test_a_gpu_cools_down_until_it_is_cool_or_settled(celsius: Any, waited: float) -> None:
    clock = Stopwatch()
    assert cool_down(lambda: celsius(clock.time), CoolDown(), clock) == pytest.approx(waited, abs=1.0)


def test_two_kernels_of_one_name_are_refused(tmp_path: Path) -> None:
    result = probe("bench", "--devices", describe(tmp_path / "gpus", card(0)), "-k", "gemm", "-k", "gemm:n=5")
    assert result.returncode == 65 and "give one another" in result.stderr
