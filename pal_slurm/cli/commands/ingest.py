"""palctl ingest. In: a spool directory. Out: what was taken, what was set aside and why; new scores."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput

if TYPE_CHECKING:
    from pal_slurm.intake.spool import TakenFile
    from pal_slurm.learning.run import Ingested


@click.command(name="ingest", short_help="Take in what nodes and jobs measured, and make scores of it.")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, with all fields.")
@pass_palctl
def command(palctl: Palctl, directory: Path | None, as_json: bool) -> None:
    """Take in the documents in DIRECTORY (default: profile.spool of pal.yaml).

    What is whole goes into the database and then to DIRECTORY/taken; what can't be used goes to DIRECTORY/set-aside
    with the reason beside it. Running it again, or killing it at any moment, does no harm. Exit code 65: something was
    set aside.
    """
    from pal_slurm.intake.spool import FileFate
    from pal_slurm.learning.run import ingest

    if directory is None and not palctl.config.profile.spool:
        raise BadInput("name a directory, or set profile.spool in pal.yaml")
    spool = directory or Path(palctl.config.profile.spool)
    done = ingest(palctl.store, palctl.config, spool, time.time(), tell=lambda told: None if as_json else _tell(told))
    if as_json:
        _as_json(done)
    else:
        _summary(done, spool)
    if done.count(FileFate.SET_ASIDE):
        raise click.exceptions.Exit(BadInput.exit_code)


def _tell(told: TakenFile) -> None:
    from pal_slurm.report.text import shown

    if told.said:
        click.echo(f"palctl: {shown(told.name)}: {told.fate}: {shown(told.said)}", err=True)


def _summary(done: Ingested, spool: Path) -> None:
    from pal_slurm.intake.spool import FileFate

    counts = ", ".join(f"{done.count(fate)} {fate.value}" for fate in FileFate if done.count(fate)) or "nothing new"
    say(f"{spool}: {counts}; {done.runs} runs and {done.samples} stretches of jobs")
    if done.left_out:
        click.echo(f"{done.left_out} step reports that can't be were left out")
    if done.rescored.nights:
        click.echo(f"{done.rescored.scores} scores were made anew, of {done.rescored.nights} nights with new runs")
    if done.learned.samples:
        click.echo(f"{done.learned.scores} scores changed by what {done.learned.samples} stretches of jobs showed")
    if done.featured.classes:
        click.echo(f"{done.featured.classes} applications got a class by what they use; see palctl apps")
    for alert in done.alerts:
        say(f"ALERT {alert.said}")


def _as_json(done: Ingested) -> None:
    from pal_slurm.report.text import as_json, shown

    click.echo(
        as_json(
            {
                "files": [replace(file, name=shown(file.name)) for file in done.files],
                "nights": done.rescored.nights,
                "scores": done.rescored.scores,
                "alerts": [alert.said for alert in done.alerts],
                "learned": done.learned.scores,
                "heard": done.learned.samples,
            }
        )
    )
