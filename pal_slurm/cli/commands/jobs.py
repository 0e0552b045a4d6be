"""palctl jobs. In: last decisions and outcomes. Out: one row per job."""

from __future__ import annotations

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.numbers import Whole


@click.command(name="jobs", short_help="What was decided about each job, and what it got.")
@click.option("-n", "--most", default=100, show_default=True, type=Whole(1, 100_000), help="Newest jobs to show.")
@output_options
@pass_palctl
def command(palctl: Palctl, most: int, as_json: bool, fields: str) -> None:
    """What was decided about each job, and what it got, newest first.

    GAIN: how much longer a step would take where Slurm itself would have put the job (0.2 is 20 %). MOVES: how it was
    said that the job may be moved while it runs (asked, site, requeue), or why it may not. Of jobs that were put on
    the GPU of another, --output also knows beside (which one), beside_cost, beside_gain and beside_gpu_s.
    """
    from pal_slurm.report.jobs import DEFAULT, FIELDS, TIMES, job_rows
    from pal_slurm.report.text import clock
    from pal_slurm.store import DecisionRepo, OutcomeRepo

    columns = choose(fields, FIELDS, FIELDS if as_json else DEFAULT)
    if palctl.asks_pald:
        rows, empty = list(palctl.ask("jobs", most=most).rows), "no GPU job of yours is known"
    else:
        decided = DecisionRepo(palctl.store, palctl.cluster).newest(most)
        got = OutcomeRepo(palctl.store, palctl.cluster).newest(most)
        rows, empty = job_rows(decided, got, most), "pald has seen no GPU job yet"
    if not as_json:
        rows = [row | {name: clock(row[name]) for name in TIMES} for row in rows]
    print_rows(rows, columns, as_json=as_json, empty=empty)
