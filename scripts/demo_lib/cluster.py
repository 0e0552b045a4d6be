"""Where the demo plays: a mini-cluster of its own (here), or the cluster that this host belongs to (standing.py).

In: options. Out: a `Stage` on which jobs run with or without pald. Whatever happens, what was started is stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .workload import APPS

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("PAL_MINICLUSTER_HOME", "/tmp/pal-minicluster"))
BIN = Path(sys.executable).parent
PYSLURM = "/usr/local/lib/pal-slurm/pyslurm/bin/python"  # where scripts/build-pyslurm puts it in a root


class Stage(Protocol):
    """A cluster whose GPUs have the demo's speeds."""

    @property
    def bin(self) -> Path:
        """The directory of sbatch and squeue."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of who submits."""
        ...

    def placing(self, name: str, books: Path) -> AbstractContextManager[None]:
        """Within the block pald places jobs by that policy; `stock`: nobody does. `books` is for what it leaves."""
        ...


def tool(*words: str, env: Mapping[str, str] | None = None) -> str:
    """Run one of ours; its own words are the error."""
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        raise SystemExit(f"demo: {' '.join(words[:3])} failed ({done.returncode}):\n{done.stderr or done.stdout}")
    return done.stdout


def teach(config: Path, scores: Path) -> None:
    """What pald knows in the demo: a perfect profile of the GPUs, and the classes of the applications."""
    ctl = (str(BIN / "palctl"), "--config", str(config))
    tool(*ctl, "db", "upgrade")
    tool(*ctl, "scores", "import", str(scores))
    _tell_classes(ctl)


def profile(config: Path) -> None:
    """Instead of a perfect profile: measured through Slurm, one job per node, as in any night."""
    ctl = (str(BIN / "palctl"), "--config", str(config))
    tool(*ctl, "db", "upgrade")
    tool(*ctl, "profile", "run")
    _tell_classes(ctl)


def _tell_classes(ctl: tuple[str, ...]) -> None:
    tool(*ctl, "apps", "set", *(f"{app}={cls}" for app, cls in APPS.items()))


@dataclass(frozen=True)
class Minicluster:
    """A mini-cluster; each run has a pald of its own with a database of its own."""

    directory: Path
    release: str
    scores: Path
    profiled: bool = False

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    @property
    def env(self) -> Mapping[str, str]:
        return {"PATH": f"{self.bin}:/usr/bin:/bin"}

    @contextmanager
    def placing(self, name: str, books: Path) -> Iterator[None]:
        if name == "stock":
            yield
            return
        books.mkdir()
        config = self._write_config(books, name)
        if self.profiled:
            (books / "spool").mkdir()
            profile(config)
        else:
            teach(config, self.scores)
        with self._pald(config, books / "pald.log"):
            yield

    def _write_config(self, state: Path, policy: str) -> Path:
        """pal.yaml for this cluster: everything else is as shipped."""
        worker = f"\n  worker_command: [{self.bin}/in-cluster]\n  worker_python: {PYSLURM}"
        backend = f"pyslurm{worker}" if self.release == "26.05" else "cli"
        kernels = " ".join(f"-k fake:{cls},pace=0.05,noise=0.01" for cls in sorted(set(APPS.values())))
        probe = f"PYTHONPATH={ROOT} python3 -m pal_slurm.probe bench --devices fake --scope gpu --warm 0 --cool-wait 0"
        path = state / f"pal-{policy}.yaml"
        path.write_text(
            f"""cluster:
  backend: {backend}
  bin_dir: {self.bin}
actuator: pin
policy:
  name: {policy}
state_dir: {state}
cycle:
  interval_s: 2
  wake_file: {self.directory}/run/pald.wake
  alive_file: {self.directory}/run/pald.alive
profile:
  spool: {state}/spool
  command: {probe} {kernels} --rounds 5 --run 0.5 -o {{spool}}/
  max_parallel: 8
  minutes: 5
learning:
  enabled: false
budget:
  edits_per_s: 100
metrics:
  listen: ""
""",
            encoding="utf-8",
        )
        return path

    @contextmanager
    def _pald(self, config: Path, log: Path) -> Iterator[None]:
        """pald at work: from its first sign of life to its clean end."""
        alive = self.directory / "run" / "pald.alive"
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


@contextmanager
def minicluster(
    name: str, release: str, nodes: int, gpus: int, speeds: Path, scores: Path, profiled: bool = False
) -> Iterator[Stage]:
    program = str(ROOT / "scripts" / "minicluster")
    tool(
        program, "up", "--name", name, "--slurm", release, "--nodes", str(nodes), "--gpus", str(gpus),
        "--speeds", str(speeds),
    )  # fmt: skip
    try:
        yield Minicluster(HOME / name, release, scores, profiled)
    finally:
        tool(program, "down", "--name", name)
