"""palctl alerts. In: the store. Out: what a person should look at: changes, shifts of the fleet, unhealthy cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.periods import since_option

if TYPE_CHECKING:
    from pal_slurm.report.text import Value

FIELDS = ("when", "kind", "said")


@click.command(name="alerts", short_help="What a person should look at: changes, shifts, unhealthy cards.")
@since_option("7d", "Alerts since then")
@output_options
@pass_palctl
def command(palctl: Palctl, since: float, as_json: bool, fields: str) -> None:
    """Newest first. None of these changes a score or stops a job.

    slower, recovered: jobs show that a GPU changed. asked: one user's jobs alone say so, which waits for a witness.
    shift: the whole fleet was slower or faster in a night.
    unhealthy: a diagnostic failed, or memory repairs wait for a reboot.
    """
    from pal_slurm.report.text import clock
    from pal_slurm.store.nights import NightRepo

    columns = choose(fields, FIELDS, FIELDS)
    found = NightRepo(palctl.store).alerts(since)
    rows: list[dict[str, Value]] = [{"when": clock(a.raised_at), "kind": a.kind, "said": a.said} for a in found]
    print_rows(rows, columns, as_json=as_json, empty=f"no alerts since {clock(since)}")
