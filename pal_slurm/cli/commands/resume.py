"""palctl resume. In: nothing. Out: pald places jobs again."""

from __future__ import annotations

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.errors import StoreError


@click.command(name="resume", short_help="Place jobs again after `palctl pause`.")
@pass_palctl
def command(palctl: Palctl) -> None:
    """Place jobs again after `palctl pause`."""
    from pal_slurm.daemon.pausing import paused, resume
    from pal_slurm.store import Switches

    try:
        store = palctl.store
    except StoreError:
        resume(palctl.config, None)  # a pause that stands in the database would still hold, so say so
        raise
    was = paused(palctl.config, Switches(store))
    resume(palctl.config, store)
    click.echo(
        "pald goes on with its next cycle: jobs that it gave back are leased again (not after a restart of pald); "
        "those that were submitted meanwhile start as Slurm starts them"
        if was
        else "pald was not paused"
    )
