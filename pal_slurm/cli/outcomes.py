"""How `simulate` and `gain` show what they found. In: columns of outcomes. Out: a table, a progress bar, a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.say import say

if TYPE_CHECKING:
    from pal_slurm.sim.compare import Column, Interval
    from pal_slurm.sim.engine import OnProgress
    from pal_slurm.sim.outcome import OfSize
    from pal_slurm.sim.policies import Setting
    from pal_slurm.sim.with_daemon import UnderPald
    from pal_slurm.sim.worlds import World


@contextmanager
def progress_bar(what: str) -> Iterator[OnProgress | None]:
    """A bar on a terminal's standard error; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        shown = -1

        def tell(done: int, total: int) -> None:
            nonlocal shown
            if (percent := 100 * done // max(total, 1)) != shown:
                shown = percent
                bar.update(task, completed=done, total=total)

        yield tell


FIGURES = (
    ("avg_jct_s", "average JCT, h", 3600, 3),
    ("median_jct_s", "median JCT, h", 3600, 3),
    ("p99_jct_s", "99 % JCT, h", 3600, 2),
    ("makespan_s", "makespan, h", 3600, 2),
    ("utilization", "utilization", 1, 3),
    ("shared", "GPU time of two jobs", 1, 3),
    ("moves", "moves", 1, 0),
    ("restarts", "restarts", 1, 0),
    ("cpu_s", "simulated in, CPU s", 1, 2),
)
RATIO = "/first"
_RATIOS = (
    (f"avg_jct_s{RATIO}", "average JCT / first"),
    (f"p99_jct_s{RATIO}", "99 % JCT / first"),
    (f"makespan_s{RATIO}", "makespan / first"),
)
SIZES = "sizes"  # a row for each size class
ROWS = ("parts", *(name for name, *_ in FIGURES), *(name for name, _ in _RATIOS), SIZES)
ALONE = tuple(name for name in ROWS if name != "shared")  # where no job may share


def print_columns(columns: Sequence[Column], setting: Setting, world: World, shown: Sequence[str] = ROWS) -> None:
    """One policy per column; ratios to the first, with 95 % intervals where there are several seeds."""
    load = world.load
    seeds = len(columns[0].outcomes)
    rules = setting.rules
    rounds = f"rounds of {rules.round_s:g} s" if rules.round_s else "no rounds"
    click.echo(
        f"{len(load.works)} jobs ({len(load.tracked)} count), "
        f"{setting.cluster.n_gpus} GPUs on {setting.cluster.n_nodes} nodes, {rounds}, "
        f"restart cost {rules.restart_cost_s:g} s, {seeds} seed{'s' * (seeds > 1)}"
    )
    for note in (*load.notes, *([f"{load.skipped} rows left out"] if load.skipped else [])):
        say(f"note: {note}")
    rows = [["", *(column.spec.label for column in columns)]]
    told = {"parts": [["order, fill", *(f"{c.spec.walks}, {c.spec.fill}" for c in columns)]]}
    for name, title, scale, digits in FIGURES:
        told[name] = [[title, *(f"{column.figures()[name] / scale:.{digits}f}" for column in columns)]]
    for name, title in _RATIOS:
        told[name] = [[title, *(ratio(c.ratio_to(columns[0], name.removesuffix(RATIO))) for c in columns)]]
    told[SIZES] = list(_by_size([column.sizes() for column in columns]))
    print_table([*rows, *(row for name in shown for row in told[name])])


def _by_size(columns: Sequence[Mapping[str, OfSize]]) -> Iterator[list[str]]:
    """Mean and 99th percentile; all columns ran the same jobs."""
    for name, first in columns[0].items():
        head = f"{name} GPU{'s' * (name != '1')} ({first.jobs:.4g} jobs): JCT, 99 %, h"
        yield [head, *(f"{c[name].avg_jct_s / 3600:.3f}, {c[name].p99_jct_s / 3600:.2f}" for c in columns)]


def print_beside(found: Sequence[UnderPald]) -> None:
    """What pald costs over the bare policy, and what it did for that."""
    from pal_slurm.sim.with_daemon import FACTS

    rows = [["", *(beside.column.spec.label for beside in found)]]
    titles = (("avg_jct_s", "average JCT, lost"), ("p99_jct_s", "99 % JCT, lost"), ("makespan_s", "makespan, lost"))
    for name, title in titles:
        rows.append([title, *(f"{beside.loss(name):+.2f} %" for beside in found)])
    rows += [[title, *(f"{beside.facts()[name]:.0f}" for beside in found)] for name, title in FACTS.items()]
    click.echo()
    print_table(rows)


def ratio(value: Interval) -> str:
    return f"{value.mean:.3f}" if value.reach is None else f"{value.mean:.3f} ±{value.reach:.3f}"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        say("  ".join((row[0].ljust(widths[0]), *cells)).rstrip())


def write_json(path: Path, value: object) -> None:
    import msgspec

    from pal_slurm.cli.whole_file import write_whole

    write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
