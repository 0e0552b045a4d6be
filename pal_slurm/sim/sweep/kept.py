"""What has been run, on disk. In: figures of one run. Out: a file for each, there whole or not at all.

Whoever is killed leaves what he has finished; whoever runs the same run again writes the same file. So any number of
processes on any number of hosts may work on one sweep, and none of them is missed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pal_slurm.errors import BadInput
from pal_slurm.sim.sweep.grid import RunOf, Sweep

Figures = Mapping[str, float]


def of_size(size: str, figure: str) -> str:
    """The name of a figure of the jobs of one size class."""
    return f"{figure}[{size}]"


class KeptRuns:
    def __init__(self, sweep: Sweep, directory: Path) -> None:
        self.directory = directory
        mark = directory / "sweep"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not mark.exists():
                _write(mark, sweep.mark.encode())
            theirs = mark.read_text()
        except OSError as error:
            raise BadInput(f"{directory} can't be written: {error.strerror}.") from error
        if theirs != sweep.mark:
            raise BadInput(
                f"{directory} holds runs of another sweep: the file, a trace that it names or the program is another. "
                "Remove it, or name another --out."
            )

    def done(self, runs: Sequence[RunOf]) -> set[RunOf]:
        there = {name.name for name in os.scandir(self.directory)}
        return {run for run in runs if _name(run) in there}

    def keep(self, run: RunOf, figures: Figures) -> None:
        _write(self.directory / _name(run), msgspec.json.encode(figures))

    def figures(self, run: RunOf) -> Figures:
        return msgspec.json.decode((self.directory / _name(run)).read_bytes(), type=dict[str, float])


def _name(run: RunOf) -> str:
    (cell, seed), policy = run
    return hashlib.sha256(msgspec.json.encode((*cell, seed, policy))).hexdigest()[:32] + ".json"


def _write(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
    Path(file.name).replace(path)
