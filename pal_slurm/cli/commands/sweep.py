"""palctl sweep. In: a grid of policies, loads, seeds and clusters. Out: one CSV, a table, a picture."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.numbers import Whole
from pal_slurm.cli.outcomes import print_table, progress_bar
from pal_slurm.cli.say import say
from pal_slurm.words import digits

if TYPE_CHECKING:
    from pal_slurm.sim.engine import OnProgress
    from pal_slurm.sim.sweep.grid import OneWorld, Sweep
    from pal_slurm.sim.sweep.kept import KeptRuns

LOOK_S = 2.0


@click.command(name="sweep", short_help="Many runs of the simulator, begun again where they were left.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The CSV; default: FILE with .csv at its end.")
@click.option("--processes", type=Whole(1, 1024), help="Default: as many as there are cores.")
@click.option("--slurm", "tasks", type=Whole(1, 10_000), metavar="TASKS", help="As one job array of so many tasks.")
@click.option("--sbatch", "options", multiple=True, metavar="OPTION", help="For --slurm: --sbatch=--partition=cpu.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a PNG.")
@click.option("--share", default="", metavar="I/N", help="Every N-th world from the I-th on, and no CSV (for --slurm).")
@pass_palctl
def command(
    palctl: Palctl,
    file: Path,
    out: Path | None,
    processes: int | None,
    tasks: int | None,
    options: tuple[str, ...],
    plot: Path | None,
    share: str,
) -> None:
    """Run a grid of policies, loads, seeds, costs of distance and clusters; one row per run in one CSV.

    What is finished is kept beside the CSV (OUT.runs): killed and started again, the sweep goes on where it was, and
    the result is the same, byte for byte. Several may work on one sweep at once. docs/simulator.md has the file's keys.
    """
    from pal_slurm.cli.whole_file import check_target, write_whole
    from pal_slurm.errors import PalError
    from pal_slurm.sim.sweep.grid import read_sweep
    from pal_slurm.sim.sweep.kept import KeptRuns
    from pal_slurm.sim.sweep.told import SweepFigures, missing
    from pal_slurm.sim.sweep.work import run_rest

    out = out or file.with_suffix(".csv")
    for path in filter(None, (out, plot)):
        check_target(str(path))
    sweep = read_sweep(file)
    kept = KeptRuns(sweep, out.with_name(f"{out.name}.runs"))
    cores = len(os.sched_getaffinity(0))
    with progress_bar("sweeping") as bar:
        progress = bar or _nobody
        if share:
            run_rest(sweep, kept, _share(sweep, share), processes or 1, progress)
            return
        if tasks is not None:
            _as_array(palctl, file, out, sweep, kept, tasks, options, progress)
        else:
            run_rest(sweep, kept, sweep.worlds(), processes or cores, progress)
    if left := missing(sweep, kept):
        raise PalError(f"{len(left)} of {len(sweep.runs())} runs are missing; the same command again does the rest.")
    found = SweepFigures(sweep, kept)
    write_whole(out, found.csv())
    if plot is not None:
        found.plot(plot)
    print_table(found.table())
    say(f"{len(sweep.runs())} runs are in {out}")


def _nobody(done: int, total: int) -> None:
    """Nobody looks."""


def _share(sweep: Sweep, text: str) -> list[OneWorld]:
    number, _, of = text.partition("/")
    if not digits(number) or not digits(of) or not 0 <= int(number) < int(of):
        raise click.BadParameter("I/N, as 0/8: shares are counted from 0", param_hint="--share")
    return sweep.worlds()[int(number) :: int(of)]


def _as_array(
    palctl: Palctl,
    file: Path,
    out: Path,
    sweep: Sweep,
    kept: KeptRuns,
    tasks: int,
    options: tuple[str, ...],
    progress: OnProgress,
) -> None:
    """Wait for it, or for Slurm to forget it."""
    from pal_slurm.sim.sweep.array import still_there, submit
    from pal_slurm.slurm.commands.run import Commands

    runs = sweep.runs()
    if len(kept.done(runs)) == len(runs):
        return
    cluster = palctl.config.cluster
    commands = Commands(Path(cluster.bin_dir) if cluster.bin_dir else None, cluster.timeout_s)
    program = [sys.executable, "-c", "from pal_slurm.cli.palctl import main; main()"]
    words = ["sweep", str(file.absolute()), "--out", str(out.absolute()), "--share"]
    job = submit(commands, [*program, *words], min(tasks, len(sweep.worlds())), kept.directory / "log", options)
    say(f"palctl: job array {job}; ended here, it goes on, and the same command takes up what it has done", err=True)
    while still_there(commands, job):
        progress(len(kept.done(runs)), len(runs))
        time.sleep(LOOK_S)
