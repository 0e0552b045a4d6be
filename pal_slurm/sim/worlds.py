"""What a seed draws: a trace, the true speeds, and what is known of them. In: files or recipes. Out: World by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pal_slurm.errors import BadInput, ConfigError
from pal_slurm.model import NOBODY_SHARES, Cluster, ScoreTable, Sharing, neutral_scores
from pal_slurm.scores import binned
from pal_slurm.sim.costs import CostMix
from pal_slurm.sim.loads import at_load
from pal_slurm.sim.profiles import draw_nodes, read_runs, read_scores
from pal_slurm.sim.synthetic import Recipe, parse_recipe, synthetic_scores, synthetic_workload
from pal_slurm.sim.traces import FORMATS, Options, Table, read_trace
from pal_slurm.sim.traces.gavel import read_pairs
from pal_slurm.sim.traces.gavel_drawn import going_on
from pal_slurm.sim.workload import Workload

ALIKE = (
    "the trace tells nobody's speed on each GPU model, so all models count alike; of your own accounting "
    "`palctl gain --models` takes what run times tell"
)


@dataclass(frozen=True, slots=True)
class World:
    """One draw."""

    load: Workload
    truth: ScoreTable
    known: ScoreTable
    sharing: Sharing = NOBODY_SHARES  # what it costs jobs to have the same GPUs,
    pairs: Sharing = NOBODY_SHARES  # and what is told of that


@dataclass(frozen=True, slots=True)
class Sources:
    """Where worlds come from. Without scores or profiles the spread is synthetic."""

    trace: str  # a path, or synthetic[:...]
    fmt: str = "auto"
    options: Options = field(default_factory=Options)
    tracked: range | None = None  # positions in the trace
    window: int | None = None  # of a trace file: so many jobs in a row, from a place that the seed draws
    movable: float = 1.0  # share of the jobs that may be moved once they run
    sharing: float = 0.0  # share of the jobs that may have their GPUs together with another
    pairs_told: float = 1.0  # share of the pairs whose costs are told
    scores: Path | None = None
    known: Path | None = None  # None: the true scores are known
    profiles: Mapping[str, Path] = field(default_factory=dict)  # class -> measured run times
    costs: CostMix | None = None  # of distance; None: as the trace's reader has them
    share: float | None = None  # of the cluster that the jobs need; None: submitted as the trace has it


class Worlds:
    """Reads each file once, then draws by seed; `first` takes a scores file as it is, others shuffle its nodes."""

    def __init__(self, sources: Sources, cluster: Cluster, first: int = 0) -> None:
        if sources.scores is not None and sources.profiles:
            raise BadInput("Give --scores or --profile, not both.")
        if sources.known is not None and sources.scores is None:
            raise BadInput("--known says what is believed of the GPUs of a --scores file; give that too.")
        self._sources = sources
        self._shape, self._n_gpus = (cluster.n_nodes, cluster.width), cluster.n_gpus
        self._first, self._cluster = first, cluster
        self._load, self._recipe = self._trace()
        self._truth = None if sources.scores is None else read_scores(sources.scores, *self._shape)
        self._known = self._truth if sources.known is None else read_scores(sources.known, *self._shape)
        if self._truth and self._known and self._truth.classes != self._known.classes:
            raise BadInput(f"{sources.known} and {sources.scores} name different classes.")
        if sources.sharing and sources.options.throughputs is None:
            raise BadInput("Who shares GPUs needs to know what that costs: give --throughputs with pairs of jobs.")
        self._sharing = (
            read_pairs(sources.options.throughputs) if sources.sharing and sources.options.throughputs else None
        )
        self._runs = {cls: read_runs(path) for cls, path in sorted(sources.profiles.items())}

    def _trace(self) -> tuple[Workload | None, Recipe | None]:
        sources = self._sources
        if sources.fmt != "auto" and sources.fmt not in FORMATS:
            raise ConfigError(f"There is no trace format {sources.fmt!r}; choose one of auto, {', '.join(FORMATS)}.")
        if sources.trace.partition(":")[0] == "synthetic":
            if sources.fmt != "auto":
                raise BadInput(f"{sources.trace} is drawn and no file of format {sources.fmt}; leave --format out.")
            self.kind = "synthetic"
            return None, parse_recipe(sources.trace)
        path = Path(sources.trace)
        with Table(path) as table:
            self.kind = table.sniff() if sources.fmt == "auto" else sources.fmt
        load = read_trace(path, self.kind, sources.options).counting(sources.tracked)
        if self.kind == "gavel" and load.tracked.stop < len(load.works):
            load = going_on(load)
        models = set(self._cluster.models)
        if len(models) > 1 and not any(len(models & work.app.base.keys()) > 1 for work in load.works):
            load = load.told(load.skipped, (*load.notes, ALIKE))
        return load, None

    def __call__(self, seed: int) -> World:
        drawn = self._draw(seed)
        load, sources = drawn.load, self._sources
        if sources.share is not None:
            load = at_load(load, sources.share, self._n_gpus)
        if sources.costs is not None:
            load = sources.costs.given(load, seed)
        load = load.movable(sources.movable, seed).sharing(sources.sharing, seed)
        sharing = self._sharing or NOBODY_SHARES
        told = sharing.told_of(sources.pairs_told, seed)
        return drawn if load is drawn.load else replace(drawn, load=load, sharing=sharing, pairs=told)

    def _draw(self, seed: int) -> World:
        load = self._load
        if load is not None and self._sources.window is not None:
            load = load.window(self._sources.window, seed)
        if self._recipe is not None:
            load = synthetic_workload(self._recipe, self._sources.options, seed).counting(self._sources.tracked)
        assert load is not None
        if self._truth is not None and self._known is not None:
            if seed == self._first:
                return World(load, self._truth, self._known)
            return World(load, shuffled(self._truth, seed), shuffled(self._known, seed))
        if self._runs:
            table = binned(tuple(self._runs), draw_nodes(list(self._runs.values()), *self._shape, seed))
        elif self._sources.options.throughputs is not None:
            table = neutral_scores(self._cluster)  # all the spread that this trace tells of is between models
        else:
            table = binned(("A", "B", "C"), synthetic_scores(*self._shape, seed))
        return World(load, table, table)


def shuffled(table: ScoreTable, seed: int) -> ScoreTable:
    """The same nodes in another order."""
    order = np.random.default_rng([seed, 11]).permutation(table.score.shape[1])
    return replace(table, score=table.score[:, order], bins=table.bins[:, order], known=table.known[:, order])
