"""palctl gained. In: what was decided and what jobs got. Out: what placement gained, or in shadow mode would have."""

from __future__ import annotations

import time

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.numbers import Number


@click.command(name="gained", short_help="What pald gained so far, or in shadow mode would have.")
@click.option("--days", default=30.0, show_default=True, type=Number(0, 3650), help="Jobs started since then.")
@output_options
@pass_palctl
def command(palctl: Palctl, days: float, as_json: bool, fields: str) -> None:
    """What placement gained, or in shadow mode would have gained: predicted step times, by class.

    A gain of 0.2: without pald a step takes 20 % longer. Waiting times are not part of it.
    """
    from pal_slurm.report.gain import FIELDS, gain_rows, gained
    from pal_slurm.store import DecisionRepo, OutcomeRepo

    columns = choose(fields, FIELDS, FIELDS)
    now = time.time()
    got = OutcomeRepo(palctl.store, palctl.cluster).since(now - days * 86_400)
    decided = DecisionRepo(palctl.store, palctl.cluster).since(now - days * 86_400)
    empty = "no job of which both step times are known: it ran, and pald decided on it"
    print_rows(gain_rows(gained(decided, got, now)), columns, as_json=as_json, empty=empty)
