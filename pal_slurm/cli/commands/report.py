"""palctl report: the fleet on one page. In: the store. Out: an HTML file that needs nothing else, or its figures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.numbers import Whole

if TYPE_CHECKING:
    from pal_slurm.report.figures import AppPoint, Fleet


@click.command(name="report", short_help="The whole fleet on one HTML page: heat map, trends, the slowest.")
@click.option("--html", "file", metavar="FILE", help="Write the page there; `-` for standard output.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures that the page is made of instead.")
@click.option(
    "--nights", default=28, show_default=True, type=Whole(2, 400), help="How far back trends go.", metavar="N"
)
@pass_palctl
def command(palctl: Palctl, file: str | None, as_json: bool, nights: int) -> None:
    """The fleet on one page: the slowest GPUs with evidence, a heat map of every GPU, distribution, trends, coverage,
    and applications by what they use.

    The page is one file: it loads nothing and runs no scripts. It is written whole or not at all.
    """
    if as_json == (file is not None):
        raise click.UsageError("say one of: --html FILE (the page), --json (its figures)")
    if file is None:
        from pal_slurm.report.text import as_json as to_json

        click.echo(to_json(_fleet(palctl, nights)))
        return
    from pal_slurm.cli.whole_file import check_target, write_whole
    from pal_slurm.report.html import environment, page

    environment()  # what is missing is told before the work is done
    if file == "-":
        click.echo(page(_fleet(palctl, nights)), nl=False)
        return
    target = check_target(file)
    fleet = _fleet(palctl, nights)
    size = write_whole(target, page(fleet))
    click.echo(f"{file}: {len(fleet.gpus)} GPUs, {size / 1e6:.2f} MB")


def _fleet(palctl: Palctl, nights: int) -> Fleet:
    from pal_slurm.report.fleet import PlannedWith, fleet_of

    known = PlannedWith(*palctl.placed(), palctl.config.scores.stale_after_days)
    return fleet_of(palctl.store, known, _apps(palctl), nights, time.time())


def _apps(palctl: Palctl) -> list[AppPoint]:
    """Those that ran most first."""
    from pal_slurm.learning.knowledge import seen_apps
    from pal_slurm.report.figures import AppPoint

    points = [
        AppPoint(
            seen.app.name, seen.app.cls, seen.source, f.jobs, f.sure, f.compute, f.memory, f.compute_error,
            f.memory_error,
        )
        for seen in seen_apps(palctl.store, palctl.config)
        for f in (seen.features,)
    ]  # fmt: skip
    return sorted(points, key=lambda point: (-point.jobs, point.app))
