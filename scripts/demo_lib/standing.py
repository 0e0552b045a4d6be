"""The demo on a cluster that is there already: the compose cluster, on its login host, as root.

In: the cluster's shared directory (spec.json, speeds.json), pald's pal.yaml. Out: a `Place`. Its pald is the cluster's
own service: for each arm pal.yaml says what it shall do, as an admin would say it, and the service reads it again by
itself. At the end pal.yaml and the speeds are as they were; pald keeps what it learned.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from pal_slurm.config import config_path, load

from .cluster import Place, Stage, tool
from .workload import APPS

BIN = Path(sys.executable).parent

QUIET_S = 8.0  # without a sign of life: longer than a cycle and the reading of pal.yaml together
WITHIN_S = 60.0
PATIENCE_S = 60.0  # for jobs of others that are about to end


@dataclass(frozen=True)
class Spec:
    release: str
    nodes: int
    gpus: int


def spec_of(directory: Path) -> Spec:
    try:
        told = json.loads((directory / "spec.json").read_text())
        return Spec(str(told["release"]), int(told["nodes"]), int(told["gpus"]))
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(f"demo: {directory}/spec.json does not tell what this cluster is: {error}") from error


@contextmanager
def standing(directory: Path, speeds: Path, scores: Path) -> Iterator[Place]:
    if os.geteuid() != 0:
        raise SystemExit("demo: only root may set the fake GPUs' speeds and pald's policy here")
    wait_until_empty(PATIENCE_S)
    config = config_path(None)
    with _kept(directory / "speeds.json"), _kept(config):
        _replace(directory / "speeds.json", speeds.read_bytes())
        yield Standing(config, Path(load(config).cycle.alive_file), scores)


def wait_until_empty(most_s: float) -> None:
    """Short jobs of others may end first."""
    deadline, said = time.monotonic() + most_s, False
    while jobs := tool("squeue", "-h", "-o", "%i").split():
        if time.monotonic() > deadline:
            raise SystemExit(
                f"demo: jobs still run or wait on this cluster after {most_s:.0f} s ({', '.join(jobs[:3])} ...); "
                "let them end, or cancel them"
            )
        if not said:
            print(f"demo: waits up to {most_s:.0f} s for jobs that `squeue` shows ({len(jobs)})", file=sys.stderr)
            said = True
        time.sleep(1)


@dataclass(frozen=True)
class Standing:
    config: Path
    alive: Path
    scores: Path
    together: bool = False

    @contextmanager
    def arm(self, name: str, books: Path) -> Iterator[Stage]:
        """First pald only watches: whatever it did before, and jobs with its leases, are gone."""
        self._set(actuator="shadow")
        self._wait_quiet()
        if name != "stock":
            _teach(self.config, self.scores)
            self._set(actuator="pin", policy={"name": name})
            self._wait_alive()
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "SLURM_CONF": os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"),
        }
        yield Stage(Path(shutil.which("squeue") or "/usr/bin/squeue").parent, env)

    def _set(self, **keys: object) -> None:
        told = yaml.safe_load(self.config.read_text()) or {}
        _replace(self.config, yaml.safe_dump({**told, **keys}).encode())

    def _wait_quiet(self) -> None:
        """Until it no longer writes signs of life, without which job_submit.lua gives no leases."""
        deadline = time.monotonic() + WITHIN_S
        since = time.monotonic()
        while time.monotonic() - since < QUIET_S:
            if time.monotonic() > deadline:
                raise SystemExit(f"demo: pald goes on placing jobs, though {self.config} says `actuator: shadow`")
            if self._gives_leases():
                os.truncate(self.alive, 0)
                since = time.monotonic()
            time.sleep(0.1)

    def _gives_leases(self) -> bool:
        """The file of a pald that has ended is empty."""
        return self.alive.exists() and self.alive.stat().st_size > 0

    def _wait_alive(self) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not self._gives_leases():
            if time.monotonic() > deadline:
                raise SystemExit("demo: pald places no jobs; `palctl status` says why")
            time.sleep(0.1)


def _teach(config: Path, scores: Path) -> None:
    """What pald knows in the demo: a perfect profile of the GPUs, and the classes of the applications."""
    ctl = (str(BIN / "palctl"), "--config", str(config))
    tool(*ctl, "db", "upgrade")
    tool(*ctl, "scores", "import", str(scores))
    tool(*ctl, "apps", "set", *(f"{app}={cls}" for app, cls in APPS.items()))


@contextmanager
def _kept(path: Path) -> Iterator[None]:
    was = path.read_bytes()
    try:
        yield
    finally:
        _replace(path, was)


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all, with the owner and the mode that the file had."""
    stat = path.stat()
    fresh = path.with_name(path.name + ".new")
    fresh.touch(mode=0o600)
    os.chown(fresh, stat.st_uid, stat.st_gid)
    fresh.write_bytes(content)
    fresh.chmod(stat.st_mode & 0o777)
    fresh.replace(path)
