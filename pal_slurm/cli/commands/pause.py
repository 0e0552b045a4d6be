"""palctl pause. In: a reason. Out: pald gives its jobs back to Slurm, and takes no more until `palctl resume`."""

from __future__ import annotations

import os
import pwd
import time

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.say import say
from pal_slurm.errors import StoreError
from pal_slurm.words import printable


@click.command(name="pause", short_help="Stop placing jobs until `palctl resume`.")
@click.option("--reason", default="", help="Shown by `palctl status`, `palctl why` and the page, with your name.")
@pass_palctl
def command(palctl: Palctl, reason: str) -> None:
    """Stop placing jobs until `palctl resume`: they are given back to Slurm as they were submitted."""
    from pal_slurm.daemon.pausing import NO_REASON, pause

    told, now = f"{printable(reason) or NO_REASON} (by {_who()})", time.time()
    try:
        pause(palctl.config, palctl.store, told, now)
    except StoreError as error:  # not there, or there and not to be written
        pause(palctl.config, None, told, now)
        say(f"palctl: {error}", err=True)
        click.echo(f"paused by {palctl.config.pause_file()} alone: it holds for pald on this host")
        return
    click.echo("paused: pald gives waiting jobs back to Slurm in its next cycle; go on with: palctl resume")


def _who() -> str:
    """Who said it; behind sudo, who called that."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = f"user {os.getuid()}"
    caller = printable(os.environ.get("SUDO_USER", ""))[:32] if user == "root" else ""
    return caller or user
