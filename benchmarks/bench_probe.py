"""What pal-probe costs a node and a training loop: `python benchmarks/bench_probe.py` (exit 1 when a limit is missed).

In: nothing. Out: a table. The watcher runs as it does on a node: nvidia-ml-py, 8 GPUs with GPM, the default interval,
and 8 processes that report their steps. The library under it is the one of tests/fakes/nvml, so a real driver's own
time comes on top (`--devices nvml` measures it on a real node). CPU time is what the scheduler counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pal_slurm.probe.document import StepTimes
from pal_slurm.probe.reporting import send
from pal_slurm.probe.steps import Steps

ROOT = Path(__file__).parents[1]
MOST_SHARE = 0.002  # of one core
MOST_STEP_NS = 5_000.0
GPUS = 8
ANSWERS = {
    "uuid": "GPU-{i}", "name": "NVIDIA H100", "minor": "{i}", "power": "312500", "sm": "1755", "mem": "2619",
    "temperature": "61", "util": "93", "util.memory": "41", "reasons": "4", "pids": "4242", "gpm": "1", "gpm.2": "88",
    "gpm.10": "37", "gpm.5": "12",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="The overhead of pal-probe watch and of step times.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to watch (default 60)")
    parser.add_argument("--interval", type=float, default=10.0, help="between samples (default 10)")
    parser.add_argument("--devices", default="", help="real ones, as nvml; default: the fake library")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        share, memory = watched(Path(name), options.seconds, options.interval, options.devices)
    step = step_cost()
    print(f"{'what':<44}{'measured':>12}{'limit':>12}")
    print(f"{'watch: share of one core':<44}{share:>11.4%}{MOST_SHARE:>12.2%}")
    print(f"{'watch: memory of its processes, MiB':<44}{memory:>12.0f}{'':>12}")
    print(f"{'a step in a training loop, ns':<44}{step:>12.0f}{MOST_STEP_NS:>12.0f}")
    return 0 if share <= MOST_SHARE and step <= MOST_STEP_NS else 1


def watched(directory: Path, seconds: float, interval: float, devices: str) -> tuple[float, float]:
    """(share of a core, MiB) once the watcher has started up."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)} | ({} if devices else fake_library(directory))
    words = ["watch", "--spool", str(directory / "spool"), "--job", "1", "--interval", f"{interval}"]
    words += ["--devices", devices or "nvml", "--socket", str(directory / "socket")]
    process = subprocess.Popen([sys.executable, "-m", "pal_slurm.probe", *words], env=env)
    os.environ |= {"SLURM_JOB_ID": "1", "PAL_PROBE_SOCKET": str(directory / "socket")}
    try:
        time.sleep(5.0)  # importing and opening the driver is once per boot
        begun, used = time.monotonic(), cpu_seconds(process.pid)
        while time.monotonic() - begun < seconds:
            time.sleep(min(interval, 10.0))
            now = time.time()
            for rank in range(GPUS):
                send(StepTimes(rank, now - 10, now, 100, 10.0, 0.09, 0.11))
        share = (cpu_seconds(process.pid) - used) / (time.monotonic() - begun)
        memory = sum(resident(pid) for pid in family(process.pid))
    finally:
        process.terminate()
        process.wait()
    return share, memory


def fake_library(directory: Path) -> dict[str, str]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("bench_probe: no C compiler: the fake NVML can't be built; use --devices nvml on a GPU node")
    library, gpus = directory / "libnvidia-ml.so.1", directory / "gpus"
    source = ROOT / "tests/fakes/nvml/nvml.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
    lines = [f"count={GPUS}"]
    lines += [f"{i}.{key}={value.format(i=i)}" for i in range(GPUS) for key, value in ANSWERS.items()]
    gpus.write_text("\n".join(lines) + "\n")
    return {"LD_LIBRARY_PATH": str(directory), "FAKE_NVML": str(gpus)}


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]


def cpu_seconds(pid: int) -> float:
    return sum(int(Path(f"/proc/{each}/schedstat").read_text().split()[0]) for each in family(pid)) / 1e9


def resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def step_cost(steps: int = 300_000) -> float:
    """Nanoseconds that counting adds to a turn of a loop; the best of five."""

    def loop(counted: Steps[int] | None) -> float:
        begun = time.perf_counter()
        for _ in range(steps) if counted is None else counted:
            pass
        return time.perf_counter() - begun

    return min(loop(Steps(range(steps))) - loop(None) for _ in range(5)) / steps * 1e9


if __name__ == "__main__":
    sys.exit(main())
