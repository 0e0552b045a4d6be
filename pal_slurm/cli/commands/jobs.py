"""palctl jobs. In: last decisions and outcomes. Out: one row per job."""

from __future__ import annotations

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.numbers import Whole
from pal_slurm.cli.periods import since_option
from pal_slurm.cli.present_now import present_now

MOST_READ = 10_000  # decisions, and starts, that a filter is held against


@click.command(name="jobs", short_help="What was decided about each job, and what it got.")
@click.option("-n", "--most", default=100, show_default=True, type=Whole(1, 100_000), help="Newest jobs to show.")
@click.option("--user", default="", metavar="NAME", help="Jobs of that user only.")
@click.option("--app", default="", metavar="NAME", help="Of that application only.")
@click.option(
    "--state", default=None, type=click.Choice(("pending", "running", "ended", "gone")), help="In that state."
)
@since_option(None, "Submitted, started or ended since then")
@output_options
@pass_palctl
def command(
    palctl: Palctl, most: int, user: str, app: str, state: str | None, since: float | None, as_json: bool, fields: str
) -> None:
    """What was decided about each job, and what it got, newest first; --output names more columns.

    STATE: pending, running, ended, or gone: it waited when pald decided about it, and left the queue without a start.
    WHERE: the nodes and GPUs that it got, or is to get. Of --output, gain: how much longer a step would take where
    Slurm itself would have put the job (0.2 is 20 %); moves: how it was said that the job may be moved while it runs
    (asked, site, requeue), or why it may not; beside, beside_cost, beside_gain and beside_gpu_s: of jobs that were put
    on the GPU of another. With --state pending EXPECTED_START, in the place of WHERE: about when the job starts, and
    between which times with nine chances of ten; a dash where nobody can tell. A filter is held against the newest
    10,000 decisions and starts.
    """
    from pal_slurm.report.jobs import DEFAULT, FIELDS, PENDING, TIMES, chosen, job_rows, narrow
    from pal_slurm.report.text import Row, clock
    from pal_slurm.store import DecisionRepo, OutcomeRepo

    usual = PENDING if state == "pending" else DEFAULT
    columns = choose(fields, FIELDS, FIELDS if as_json else usual)
    read = MOST_READ if user or app or state or since is not None else most
    rows: list[Row]
    if palctl.asks_pald:
        told = palctl.ask("jobs", most=read).rows  # an older pald tells fewer fields
        rows, empty = [{field: row.get(field) for field in FIELDS} for row in told], "no GPU job of yours is known"
    else:
        decided = DecisionRepo(palctl.store, palctl.cluster).newest(read)
        got = OutcomeRepo(palctl.store, palctl.cluster).newest(read)
        rows, empty = list(job_rows(decided, got, 2 * read, present_now(palctl))), "pald has seen no GPU job yet"
    found = chosen(rows, user, app, state or "", since)[:most]
    if rows and not found:
        empty = "none of the jobs that are known is such a one"
    if not as_json:
        found = narrow(found, usual) if not fields else [{**row, **{t: clock(row[t]) for t in TIMES}} for row in found]  # type: ignore[arg-type]
    print_rows(found, columns, as_json=as_json, empty=empty)
