"""A sweep as its file says it. In: YAML. Out: the runs of the grid, in order.

    traces: [synthetic:jobs=500, philly.csv]
    clusters: [64x8/16]
    policies: [packed, pal, {name: never-far, policy: pal, patience: "fixed(3600,7200)"}]
    comm: [flat, "costs.csv:*"]     # as --comm of palctl simulate; none: `locality`
    loads: [0.5, 0.75, 0.95]        # as --load; none: submitted as the trace has it
    seeds: 20                       # or a list
    window: 500                     # of a trace file: so many jobs in a row, from a place that the seed draws

The rest of the keys is what palctl simulate has as options, the same for all. Paths are relative to the file.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from pal_slurm import __version__
from pal_slurm.errors import BadInput
from pal_slurm.sim.policies import PolicySpec, read_policy

FIGURES = 2  # of a run, as kept; another number where a run has others
MOST_RUNS = 1_000_000


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file."""

    traces: tuple[str, ...]
    policies: tuple[str | PolicySpec, ...]
    clusters: tuple[str, ...] = ("16x4",)
    comm: tuple[str, ...] = ("",)
    loads: tuple[float | None, ...] = (None,)
    seeds: int | tuple[int, ...] = 1
    format: str = "auto"
    fill: str = "easy"
    moves: bool = False
    tracked: int | None = None
    window: int | None = None
    uplinks: str = ""
    round: float = 0.0
    restart_cost: float = 0.0
    checkpoint: float = 0.0
    locality: float = 1.7
    default_class: str = "A"
    limit_factor: float = 2.0
    throughputs: str = ""
    scores: str = ""
    known: str = ""
    profiles: dict[str, str] = {}


class GridCell(NamedTuple):
    """A column of the result: what is compared seed by seed."""

    trace: str
    cluster: str
    comm: str
    load: float | None


class OneWorld(NamedTuple):
    """What all policies of one cell meet with one seed."""

    cell: GridCell
    seed: int


class RunOf(NamedTuple):
    world: OneWorld
    policy: str


@dataclass(frozen=True, slots=True)
class Sweep:
    grid: Grid
    specs: tuple[PolicySpec, ...]
    at: Path  # what paths are relative to
    mark: str  # of the file and all that it names: runs of another mark are not this sweep's

    @property
    def seeds(self) -> Sequence[int]:
        return range(self.grid.seeds) if isinstance(self.grid.seeds, int) else self.grid.seeds

    def cells(self) -> Iterator[GridCell]:
        g = self.grid
        for trace in g.traces:
            for cluster in g.clusters:
                for comm in g.comm:
                    for load in g.loads:
                        yield GridCell(trace, cluster, comm, load)

    def worlds(self) -> list[OneWorld]:
        return [OneWorld(cell, seed) for cell in self.cells() for seed in self.seeds]

    def runs(self) -> list[RunOf]:
        return [RunOf(world, spec.label) for world in self.worlds() for spec in self.specs]

    def path(self, name: str) -> Path | None:
        return self.at / name if name else None


def read_sweep(path: Path) -> Sweep:
    try:
        raw = path.read_bytes()
        grid = msgspec.yaml.decode(raw, type=Grid)
    except OSError as error:
        raise BadInput(f"{path} can't be read: {error.strerror}.") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}.") from error
    specs = []
    for entry in grid.policies:
        spec = read_policy(entry) if isinstance(entry, str) else entry
        specs.append(spec if spec.fill else msgspec.structs.replace(spec, fill=grid.fill))
    of_each = (grid.traces, specs, grid.clusters, grid.comm, grid.loads)
    count = math.prod(map(len, of_each)) * (grid.seeds if isinstance(grid.seeds, int) else len(grid.seeds))
    if count > MOST_RUNS:
        raise BadInput(f"{path}: {count:,} runs; {MOST_RUNS:,} are the most.")
    sweep = Sweep(grid, tuple(specs), path.absolute().parent, _mark(grid, raw, path.absolute().parent))
    for field, values in (
        ("traces", grid.traces), ("policies", [spec.label for spec in specs]), ("clusters", grid.clusters),
        ("comm", grid.comm), ("loads", grid.loads), ("seeds", sweep.seeds),
    ):  # fmt: skip
        if not values:
            raise BadInput(f"{path}, {field}: there is none.")
        value, times = Counter(values).most_common(1)[0]
        if times > 1:
            raise BadInput(f"{path}, {field}: {str(value)[:80]} stands there twice; give policies a `name`.")
    if any(load is not None and not 0 < load <= 100 for load in grid.loads):
        raise BadInput(f"{path}, loads: a share of the cluster's GPUs, above 0, as 0.75.")
    if grid.window is not None and grid.window < 1:
        raise BadInput(f"{path}, window: at least 1 job.")
    if any(seed < 0 for seed in sweep.seeds):
        raise BadInput(f"{path}, seeds: whole numbers from 0 on.")
    return sweep


def _mark(grid: Grid, raw: bytes, at: Path) -> str:
    """Of all bytes that make the results, this program's version included, and which figures a run has."""
    total = hashlib.sha256(f"{__version__}\0{FIGURES}\0".encode() + raw)
    names = [*grid.traces, grid.throughputs, grid.scores, grid.known, *grid.profiles.values()]
    names += [text.rpartition(":")[0] for text in grid.comm] + [p for p in grid.policies if isinstance(p, str)]
    for name in names:
        path = at / name
        if name and _is_file(path):
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:32]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have, as synthetic words may be
        return False
