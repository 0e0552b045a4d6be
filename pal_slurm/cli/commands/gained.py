"""palctl gained. In: what was decided and what jobs got. Out: what placement gained, or in shadow mode would have."""

from __future__ import annotations

import time

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.periods import since_option


@click.command(name="gained", short_help="What pald gained on the jobs that it saw; `gain` asks sacct what it would.")
@since_option("30d", "Jobs started since then")
@output_options
@pass_palctl
def command(palctl: Palctl, since: float, as_json: bool, fields: str) -> None:
    """What placement gained, or in shadow mode would have gained: predicted step times, by class.

    From pald's own records: what it decided, and what the jobs got. `palctl gain` is another thing: a replay of your
    accounting (sacct), also where no pald ever ran. A gain of 0.2: without pald a step takes 20 % longer. Waiting times
    are not part of it.
    """
    from pal_slurm.report.gain import FIELDS, gain_rows, gained
    from pal_slurm.store import DecisionRepo, OutcomeRepo

    columns = choose(fields, FIELDS, FIELDS)
    got = OutcomeRepo(palctl.store, palctl.cluster).since(since)
    decided = DecisionRepo(palctl.store, palctl.cluster).since(since)
    empty = "no job of which both step times are known: it ran, and pald decided on it"
    print_rows(gain_rows(gained(decided, got, time.time())), columns, as_json=as_json, empty=empty)
