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
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
MOVES = "moves"  # the arm of pal that moves running jobs
HOME = Path(os.environ.get("PAL_MINICLUSTER_HOME", "/tmp/pal-minicluster"))


@dataclass(frozen=True)
class Stage:
    """A cluster whose GPUs have the demo's speeds."""

    bin: Path  # the directory of sbatch and squeue
    env: Mapping[str, str]  # of who submits


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

    @contextmanager
    def arm(self, name: str, books: Path) -> Iterator[Stage]:
        own = f"demo{os.getpid()}-{name}"
        size = ("--nodes", str(self.nodes), "--gpus", str(self.gpus), "--speeds", str(self.speeds))
        policy, actuator = ("pal", "move") if name == MOVES else (name, "pin")
        profile = "measured" if self.profiled else "perfect"
        pald = ("--pald", "--policy", policy, "--actuator", actuator, "--profile", profile)
        program = str(ROOT / "scripts" / "minicluster")
        tool(
            program, "up", "--name", own, "--slurm", self.release, "--until-gone", str(os.getpid()),
            *size, *(pald if name != "stock" else ()),
        )  # fmt: skip
        directory = HOME / own
        try:
            yield Stage(directory / "bin", {"PATH": f"{directory}/bin:/usr/bin:/bin"})
            for kept in (directory / "pald", directory / "log"):
                if kept.exists():
                    shutil.copytree(kept, books, dirs_exist_ok=True)
        finally:
            tool(program, "down", "--name", own)
