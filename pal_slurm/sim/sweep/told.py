"""What a sweep found. In: the figures of all runs. Out: a CSV, a row per run; a table and a picture with intervals."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from pal_slurm.errors import ConfigError
from pal_slurm.sim.compare import Interval, interval
from pal_slurm.sim.outcome import SIZES, OfSize
from pal_slurm.sim.sweep.grid import GridCell, OneWorld, RunOf, Sweep
from pal_slurm.sim.sweep.kept import KeptRuns, of_size


class SweepFigures:
    """All figures of a sweep that is done."""

    def __init__(self, sweep: Sweep, kept: KeptRuns) -> None:
        self.sweep = sweep
        self.figures = {run: kept.figures(run) for run in sweep.runs()}

    def csv(self) -> str:
        text = io.StringIO()
        some = next(iter(self.figures.values()))
        sizes = [of_size(size, figure) for size in SIZES for figure in OfSize._fields]
        names = [name for name in some if name not in sizes] + sizes
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(("trace", "cluster", "comm", "load", "seed", "policy", *names))
        for ((cell, seed), policy), figures in self.figures.items():
            load = "" if cell.load is None else f"{cell.load:g}"
            values = (f"{figures[name]:.10g}" if name in figures else "" for name in names)
            rows.writerow((*map(_plain, cell[:3]), load, seed, _plain(policy), *values))
        return text.getvalue()

    def _sizes(self, cell: GridCell) -> list[str]:
        """Those that there are."""
        seeds = [self.figures[RunOf(OneWorld(cell, seed), self.sweep.specs[0].label)] for seed in self.sweep.seeds]
        return [size for size in SIZES if any(of_size(size, "jobs") in figures for figures in seeds)]

    def values(self, cell: GridCell, policy: str, name: str) -> list[float]:
        """One for each seed that has it: some have no job of a size class."""
        figures = (self.figures[RunOf(OneWorld(cell, seed), policy)] for seed in self.sweep.seeds)
        return [found[name] for found in figures if name in found]

    def ratio(self, cell: GridCell, policy: str, name: str) -> Interval:
        """To the first policy, seed by seed."""
        first = self.values(cell, self.sweep.specs[0].label, name)
        mine = self.values(cell, policy, name)
        return interval([m / f if f else 1.0 for m, f in zip(mine, first, strict=True)])

    def table(self) -> list[list[str]]:
        """A row per cell: the first policy's average JCT in hours; how the others compare, and their moves a job.

        Of the size classes the one that fares worst is told, by the mean JCT of its jobs.
        """
        labels = [spec.label for spec in self.sweep.specs]
        rows = [
            [
                "trace, cluster, comm, load",
                f"{labels[0]}, h",
                *(f"{label}: JCT, 99 %, worst size, makespan" for label in labels[1:]),
            ]
        ]
        for cell in self.sweep.cells():
            hours = interval(self.values(cell, labels[0], "avg_jct_s")).mean / 3600
            title = ", ".join(str(part) for part in _short(cell) if part not in ("", None))
            row = [title, f"{hours:.2f}"]
            for label in labels[1:]:
                jct, p99, span = (self.ratio(cell, label, name) for name in ("avg_jct_s", "p99_jct_s", "makespan_s"))
                worst, size = max((self.ratio(cell, label, of_size(s, "avg_jct_s")).mean, s) for s in self._sizes(cell))
                row.append(
                    f"{jct.mean:.3f}{_reach(jct)}, {p99.mean:.3f}, {worst:.3f} ({size} GPU{'s' * (size != '1')}), "
                    f"{span.mean:.3f}{self._moves(cell, label)}"
                )
            rows.append(row)
        return rows

    def _moves(self, cell: GridCell, policy: str) -> str:
        """A job, where there are any at all."""
        moves, jobs = (sum(self.values(cell, policy, name)) for name in ("moves", "jobs"))
        return f", {moves / jobs:.2f} moves" if moves else ""

    def plot(self, path: Path) -> None:
        """Average JCT over the first policy's against load, one panel per trace, cluster and comm."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ConfigError("--plot needs matplotlib: pip install 'pal-slurm[report]'.") from error
        panels: dict[tuple[str, str, str], list[GridCell]] = {}
        for cell in self.sweep.cells():
            panels.setdefault(_short(cell)[:3], []).append(cell)
        wide = min(3, len(panels))
        figure = Figure(figsize=(5 * wide, 4 * -(-len(panels) // wide)), layout="constrained")
        axes = figure.subplots(-(-len(panels) // wide), wide, squeeze=False).flatten().tolist()
        for ax, (title, cells) in zip(axes, panels.items(), strict=False):
            for i, spec in enumerate(self.sweep.specs):
                ratios = [self.ratio(cell, spec.label, "avg_jct_s") for cell in cells]
                at = [j + 0.04 * i if cell.load is None else cell.load + 0.003 * i for j, cell in enumerate(cells)]
                reach = [r.reach or 0.0 for r in ratios]
                ax.errorbar(at, [r.mean for r in ratios], reach, marker="o", capsize=2, label=spec.label)
            ax.set_title(fill(", ".join(filter(None, title)).replace(",", ", "), 60), fontsize=8)
            ax.set(xlabel="load", ylabel=f"average JCT / {self.sweep.specs[0].label}")
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        axes[0].legend(fontsize=7)
        FigureCanvasAgg(figure)
        figure.savefig(path, format="png", metadata={"Software": None})


def _short(cell: GridCell) -> tuple[str, str, str, float | None]:
    """Files by their names."""
    trace = cell.trace if cell.trace.startswith("synthetic") else Path(cell.trace).name
    file, colon, names = cell.comm.rpartition(":")
    return trace, cell.cluster, f"{Path(file).name}{colon}{names}" if file else cell.comm, cell.load


def _plain(text: object) -> str:
    """No spreadsheet takes it for a formula."""
    said = str(text)
    return f"'{said}" if said[:1] in ("=", "+", "-", "@") else said


def _reach(found: Interval) -> str:
    return "" if found.reach is None else f" ±{found.reach:.3f}"


def missing(sweep: Sweep, kept: KeptRuns) -> Sequence[RunOf]:
    done = kept.done(sweep.runs())
    return [run for run in sweep.runs() if run not in done]
