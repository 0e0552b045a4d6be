"""palctl status: how things stand between pald, Slurm and the store."""

from __future__ import annotations

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.words import plain


@click.command(name="status", short_help="How things stand between pald, Slurm and the database.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@pass_palctl
def command(ctl: Palctl, as_json: bool) -> None:
    """Who leads, what this Slurm can do, how many jobs are leased and pinned; what stands in the way."""
    from pal_slurm.daemon.status import status_of
    from pal_slurm.report import text

    with ctl.slurm() as slurm:
        seen = status_of(ctl.config, slurm, ctl.store)
    if as_json:
        click.echo(text.as_json(seen))
        return
    for name, value in seen.lines():
        click.echo(f"{click.style(f'{name:<12}', bold=True)} {plain(value)}")
    for said in (*(f"pald says: {said}" for said in seen.said), *seen.warnings):
        click.echo(click.style(f"{'!':<12} {plain(said)}", fg="yellow"))
