"""palctl slots: emit, check. In: a running Slurm, a gres.conf. Out: lines to paste, findings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput
from pal_slurm.words import plain

if TYPE_CHECKING:  # loaded when a command needs it
    from pal_slurm.report.text import Row
    from pal_slurm.slurm.commands.run import Commands

FIELDS = ("level", "said")


@click.group(name="slots", short_help="Set a site up for pins that name exact devices.")
def command() -> None:
    """Set a site up for pins that name exact devices: one GRES type per slot."""


@command.command()
@click.option("--gres-conf", type=click.Path(path_type=Path), help="The one in use; its Cores and Links are kept.")
@pass_palctl
def emit(palctl: Palctl, gres_conf: Path | None) -> None:
    """Print the gres.conf and slurm.conf lines of this site with slots. Changes nothing."""
    from pal_slurm.intake.inputs import read_input
    from pal_slurm.slots.emit import emit as make
    from pal_slurm.slots.gres_conf import read_gres_conf
    from pal_slurm.slurm.commands.cluster import QUESTIONS, read_machine

    try:
        text = read_input(str(gres_conf)).decode() if gres_conf else ""
    except UnicodeDecodeError as error:
        raise BadInput(f"{gres_conf} is not UTF-8 text (byte {error.start}); give the gres.conf in use") from error
    machine = read_machine(_commands(palctl).show(QUESTIONS))
    made = make(machine.nodes, read_gres_conf(text, str(gres_conf)))
    for title, lines in (("gres.conf", made.gres_conf), ("slurm.conf", made.slurm_conf)):
        click.echo(f"# {title}")
        say("\n".join(lines) + "\n")
    for remark in made.remarks:
        say(f"# NOTE {remark}")


@command.command()
@output_options
@pass_palctl
def check(palctl: Palctl, as_json: bool, fields: str) -> None:
    """Tell whether the running cluster is set up for exact pins; exit code 1 when something is wrong."""
    from pal_slurm.slots.check import Level, check_slots
    from pal_slurm.slurm.commands.cluster import QUESTIONS, read_config, read_machine

    columns = choose(fields, FIELDS, FIELDS)
    commands = _commands(palctl)
    settings = read_config(commands.read("scontrol", ("show", "config")))
    machine = read_machine(commands.show(QUESTIONS))
    found = check_slots(machine.nodes, settings, {part.name: part.billing for part in machine.partitions})
    if as_json or fields:
        rows: list[Row] = [{"level": f.level.value, "said": f.said} for f in found]
        print_rows(rows, columns, as_json=as_json, empty="")
    else:
        colours = {Level.FINE: "green", Level.NOTE: "yellow", Level.WRONG: "red"}
        for f in found:
            click.echo(f"{click.style(f'{f.level:<6}', fg=colours[f.level])} {plain(f.said)}")
    if any(f.level is Level.WRONG for f in found):
        sys.exit(1)


def _commands(palctl: Palctl) -> Commands:
    from pal_slurm.slurm.commands.run import Commands

    cluster = palctl.config.cluster
    return Commands(Path(cluster.bin_dir) if cluster.bin_dir else None, cluster.timeout_s)
