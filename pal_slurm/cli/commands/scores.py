"""palctl scores: what to show of them, import. In: the store, a file. Out: rows; stored scores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, output_options, pass_palctl
from pal_slurm.cli.periods import first_night
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput

if TYPE_CHECKING:
    from pal_slurm.intake.score_file import Entry


@click.group(
    name="scores", invoke_without_command=True, short_help="Scores of the GPUs by class, their history; import."
)
@click.option(
    "--per",
    type=click.Choice(["gpu", "node", "rack"]),
    default="gpu",
    help="One row per GPU (default), node or rack: the mean of those that count, and the slowest.",
)
@click.option("--since", default="", metavar="WHEN", help="With history and drift since then: 30d, 12w, 2026-10-01.")
@click.option("--bins", is_flag=True, help="One row per class and bin instead of one per GPU.")
@click.option(
    "--by",
    type=click.Choice(["placement", "published", "intervals"]),
    default="placement",
    help="Bins: as pald places by (default), by k-means as published, or by what the intervals tell apart.",
)
@click.option("--outliers", is_flag=True, help="Only GPUs that are slower than 1.3, surely; with the evidence.")
@click.option("--stale", is_flag=True, help="Only GPUs with a score that is too old to count.")
@click.option("--never-profiled", "never", is_flag=True, help="Only GPUs that no night measured; asks Slurm too.")
@click.option("--class", "only", default="", metavar="CLASS", help="This class only.")
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    per: str,
    since: str,
    bins: bool,
    by: str,
    outliers: bool,
    stale: bool,
    never: bool,
    only: str,
    as_json: bool,
    fields: str,
) -> None:
    """Scores of the GPUs by class: 1.0 is the median GPU of its model, 1.2 is 20 % slower.

    GPUs in one bin count as equal. `-o nodes,...` folds rows that differ in their node only into one.

    With --since: TREND is a picture of the nights, DRIFT the change from their first third to the last (0.05: 5 %
    slower), SURE whether it is more than chance.
    """
    if ctx.invoked_subcommand is not None:
        return
    from pal_slurm.cli import score_views

    palctl = ctx.find_object(Palctl)
    assert palctl is not None
    _refuse_mixtures(
        {
            "--bins": bins,
            "--outliers": outliers,
            f"--per {per}": per != "gpu",
            "--stale or --never-profiled": stale or never,
        }
    )
    if bins and since:
        raise click.UsageError("bins have no history: leave out --bins or --since")
    if by != "placement" and not bins:
        raise click.UsageError(
            "--by is a way to make bins: add --bins; rows by node or rack are --per node, --per rack"
        )
    classes = palctl.config.classes.names
    if only and only not in classes:
        raise BadInput(f"{only!r} is none of the classes {', '.join(classes)}")
    first = first_night("--since", since, time.time()) if since else None
    view = score_views.ScoreView(palctl, (only,) if only else classes, first, as_json, fields)
    if outliers:
        score_views.show_outliers(view)
    elif bins:
        score_views.show_bins(view, by)
    elif per != "gpu":
        score_views.show_groups(view, per)
    else:
        score_views.show_gpus(view, stale, never)


def _refuse_mixtures(asked: dict[str, bool]) -> None:
    if len(named := [option for option, given in asked.items() if given]) > 1:
        raise click.UsageError(f"{' and '.join(named)} are different tables: ask for one at a time")


@command.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@pass_palctl
def import_scores(palctl: Palctl, file: Path) -> None:
    """Store scores or run times from FILE (CSV, JSON or JSON lines; `-` for standard input), all or nothing.

    Fields: node, slot, uuid, model, class or app, score or seconds (run times), measured_at. Or a CSV with one row per
    GPU: gpu, node, class_a, class_b ...
    """
    from pal_slurm.intake.inputs import read_input
    from pal_slurm.intake.score_document import document_of
    from pal_slurm.intake.score_file import read_scores
    from pal_slurm.learning.knowledge import known_apps
    from pal_slurm.store import GpuRepo, ScoreRepo

    name, now = str(file), time.time()
    data = read_input(name)
    apps, stays = known_apps(palctl.store, palctl.config), GpuRepo(palctl.store).current()
    try:
        entries = read_scores(data, name, palctl.config.classes.names, now)
        document = document_of(entries, data, name, apps, stays, now)
        lost = _not_in_slurm(palctl, name, entries)
    except BadInput as error:
        raise BadInput(f"{error}\nnothing was imported; stored scores are untouched") from error
    added = ScoreRepo(palctl.store).add(document, now)
    if added.known_before:
        say(f"{name}: this very file was imported before; nothing was changed")
        return
    older = f"; {added.kept} stored scores are newer and stay" if added.kept else ""
    say(f"{name}: {added.scores} scores of {added.gpus} GPUs from {added.runs} measurements{older}")
    if lost:
        say(f"palctl: {lost}", err=True)


def _not_in_slurm(palctl: Palctl, name: str, entries: Sequence[Entry]) -> str:
    """A sentence on GPUs that Slurm does not have, or on why that was not asked; an error where it has none of them."""
    from pal_slurm.errors import SlurmError

    try:
        with palctl.slurm() as slurm:
            cluster = slurm.snapshot().cluster
    except SlurmError as error:
        return f"nodes and slots were not held against Slurm's: {error}"
    rows, has = cluster.node_index, cluster.gpu_exists
    odd = [e for e in entries if e.node not in rows or e.slot >= cluster.width or not has[rows[e.node], e.slot]]
    if not odd:
        return ""
    first, gpus = odd[0], len({e.place for e in odd})
    place = f"{name}:{first.line}: "
    what = f"node: Slurm has no node {first.node!r}"
    if first.node in rows:
        what = f"slot: node {first.node} has no GPU {first.slot} in Slurm"
    if len(odd) < len(entries):
        return f"{place}{what}: scores of {gpus} GPUs count for nothing until Slurm has them"
    some = ", ".join(cluster.node_names[:3])
    raise BadInput(f"{place}{what}, and none of the file's {gpus} GPUs; it has {some} ...: name nodes as sinfo does")


@command.command(name="recompute")
@pass_palctl
def recompute(palctl: Palctl) -> None:
    """Make all nights and scores anew from the raw runs; scores that were imported as such stay."""
    from pal_slurm.learning.run import recompute as make_anew

    rescored, learned = make_anew(palctl.store, palctl.config, time.time())
    click.echo(f"{rescored.scores} scores made anew from the runs of {rescored.nights} nights")
    if learned.samples:
        click.echo(f"{learned.scores} changed by what {learned.samples} stretches of jobs showed since")
    for alert in [*rescored.alerts, *learned.alerts]:
        say(f"ALERT {alert.said}")
