"""The demo's cluster and its pald. In: options. Out: a running mini-cluster; both are stopped whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("PAL_MINICLUSTER_HOME", "/tmp/pal-minicluster"))
BIN = Path(sys.executable).parent
PYSLURM = "/usr/local/lib/pal-slurm/pyslurm/bin/python"  # where scripts/build-pyslurm puts it in a root


def tool(*words: str, env: dict[str, str] | None = None) -> str:
    """Run one of ours; its own words are the error."""
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        raise SystemExit(f"demo: {' '.join(words[:3])} failed ({done.returncode}):\n{done.stderr or done.stdout}")
    return done.stdout


@contextmanager
def minicluster(name: str, release: str, nodes: int, gpus: int, speeds: Path) -> Iterator[Path]:
    program = str(ROOT / "scripts" / "minicluster")
    tool(
        program, "up", "--name", name, "--slurm", release, "--nodes", str(nodes), "--gpus", str(gpus),
        "--speeds", str(speeds),
    )  # fmt: skip
    try:
        yield HOME / name
    finally:
        tool(program, "down", "--name", name)


def write_config(cluster: Path, state: Path, policy: str, release: str) -> Path:
    """pal.yaml for this cluster: everything else is as shipped."""
    worker = f"\n  worker_command: [{cluster}/bin/in-cluster]\n  worker_python: {PYSLURM}"
    backend = f"pyslurm{worker}" if release == "26.05" else "cli"
    path = state / f"pal-{policy}.yaml"
    path.write_text(
        f"""cluster:
  backend: {backend}
  bin_dir: {cluster}/bin
actuator: pin
policy:
  name: {policy}
state_dir: {state}
cycle:
  interval_s: 2
  wake_file: {cluster}/run/pald.wake
  alive_file: {cluster}/run/pald.alive
budget:
  edits_per_s: 100
metrics:
  listen: ""
""",
        encoding="utf-8",
    )
    return path


@contextmanager
def pald(config: Path, cluster: Path, log: Path) -> Iterator[None]:
    """pald at work: from its first sign of life to its clean end."""
    alive = cluster / "run" / "pald.alive"
    alive.unlink(missing_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen([BIN / "pald", "--config", config], stdout=out, stderr=out)
    try:
        for _ in range(300):
            if alive.exists():
                break
            if process.poll() is not None:
                raise SystemExit(f"demo: pald ended with {process.returncode}:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        else:
            raise SystemExit(f"demo: pald gave no sign of life in 30 s:\n{log.read_text()[-2000:]}")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        alive.unlink(missing_ok=True)
