"""Where the demo plays: mini-clusters of its own (here), or the cluster that this host belongs to (standing.py).

In: options. Out: a `Place`, and on it a `Stage` for each arm: a cluster on which pald places jobs, or nobody does.
Whatever happens, what was started is stopped; should this program be killed, its clusters end with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("PAL_MINICLUSTER_HOME", "/tmp/pal-minicluster"))


@dataclass(frozen=True)
class Stage:
    """A cluster whose GPUs have the demo's speeds."""

    bin: Path  # the directory of sbatch and squeue
    env: Mapping[str, str]  # of who submits
    sbatch: tuple[str, ...] = ()  # what every job is submitted with besides


@dataclass(frozen=True)
class Arm:
    """What one arm is. In words of `minicluster up` and of sbatch."""

    pald: tuple[str, ...] | None = None  # None: there is none
    sbatch: tuple[str, ...] = ()


def arm_of(name: str) -> Arm:
    """Unless a story says otherwise, an arm bears the name of its policy."""
    return Arm(None if name == "stock" else ("--policy", name))


class Place(Protocol):
    @property
    def together(self) -> bool:
        """Each arm has a cluster of its own: they can run at the same time."""
        ...

    def arm(self, name: str, books: Path) -> AbstractContextManager[Stage]:
        """Within the block pald places jobs by that policy; `stock`: nobody does. `books` is for what it leaves."""
        ...


def tool(*words: str, env: Mapping[str, str] | None = None) -> str:
    """Run one of ours; its own words are the error."""
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        raise SystemExit(f"demo: {' '.join(words[:3])} failed ({done.returncode}):\n{done.stderr or done.stdout}")
    return done.stdout


@dataclass(frozen=True)
class Miniclusters:
    """A mini-cluster for each arm, with a pald of its own that has a database of its own."""

    release: str
    nodes: int
    gpus: int
    speeds: Path
    profiled: bool = False
    together: bool = True
    arms: Mapping[str, Arm] = field(default_factory=dict)  # those that `arm_of` does not tell
    up: tuple[str, ...] = ()  # of `minicluster up`, for all

    @contextmanager
    def arm(self, name: str, books: Path) -> Iterator[Stage]:
        own = f"demo{os.getpid()}-{name}"
        size = ("--nodes", str(self.nodes), "--gpus", str(self.gpus), "--speeds", str(self.speeds))
        arm = self.arms.get(name) or arm_of(name)
        pald = ("--pald", "--profile", "measured" if self.profiled else "perfect")
        program = str(ROOT / "scripts" / "minicluster")
        tool(
            program, "up", "--name", own, "--slurm", self.release, "--until-gone", str(os.getpid()),
            *size, *self.up, *((*pald, *arm.pald) if arm.pald is not None else ()),
        )  # fmt: skip
        directory = HOME / own
        try:
            yield Stage(directory / "bin", {"PATH": f"{directory}/bin:/usr/bin:/bin"}, arm.sbatch)
            for kept in (directory / "pald", directory / "log"):
                if kept.exists():
                    shutil.copytree(kept, books, dirs_exist_ok=True)
        finally:
            tool(program, "down", "--name", own)
