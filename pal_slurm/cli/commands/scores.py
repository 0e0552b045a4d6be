"""palctl scores: the table, the bins, import. In: the store, a file. Out: rows; stored scores."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.errors import BadInput

_EMPTY = "no scores yet; import some with: palctl scores import FILE"


@click.group(name="scores", invoke_without_command=True, short_help="Scores of the GPUs by class, with bins; import.")
@click.option("--bins", is_flag=True, help="One row per class and bin instead of one per GPU.")
@click.option(
    "--by",
    type=click.Choice(["placement", "published", "intervals"]),
    default="placement",
    help="Bins: as pald places by (default), by k-means as published, or by what the intervals tell apart.",
)
@click.option("--outliers", is_flag=True, help="Only GPUs that are slower than 1.3, surely; with the evidence.")
@click.option("--class", "only", default="", metavar="CLASS", help="This class only.")
@output_options
@click.pass_context
def command(ctx: click.Context, bins: bool, by: str, outliers: bool, only: str, as_json: bool, fields: str) -> None:
    """Scores of the GPUs by class: 1.0 is the median GPU of its model, 1.2 is 20 % slower.

    GPUs in one bin count as equal. `-o nodes,...` folds rows that differ in their node only into one.
    """
    if ctx.invoked_subcommand is not None:
        return
    palctl = ctx.find_object(Palctl)
    assert palctl is not None
    classes = palctl.config.classes.names
    if only and only not in classes:
        raise BadInput(f"{only!r} is none of the classes {', '.join(classes)}")
    shown = (only,) if only else classes
    if outliers:
        _show_outliers(palctl, shown, as_json, fields)
    elif bins:
        _show_bins(palctl, shown, by, as_json, fields)
    else:
        _show_gpus(palctl, shown, as_json, fields)


def _show_gpus(palctl: Palctl, classes: tuple[str, ...], as_json: bool, fields: str) -> None:
    from pal_slurm.knowledge import score_table
    from pal_slurm.report.inventory import cluster_of
    from pal_slurm.report.scores import gpu_fields, gpu_rows
    from pal_slurm.report.text import folded
    from pal_slurm.store import GpuRepo, ScoreRepo

    known = gpu_fields(classes)
    default = ["node", "slot", "model", *(f"{c}{part}" for c in classes for part in ("", ".bin"))]
    everything = [field for field in known if field != "nodes"]
    columns = choose(fields, known, everything if as_json else default)
    stays, now = GpuRepo(palctl.store).current(), time.time()
    cluster = cluster_of(stays)
    table = score_table(palctl.store, palctl.config, cluster, now, classes)
    rows = gpu_rows(stays, ScoreRepo(palctl.store).placed(), cluster, table, now)
    if "nodes" in columns:
        rows = folded([{f: row[f] for f in ("node", *columns) if f != "nodes"} for row in rows])
    print_rows(rows, columns, as_json=as_json, empty=_EMPTY)


def _show_outliers(palctl: Palctl, classes: tuple[str, ...], as_json: bool, fields: str) -> None:
    from pal_slurm.report.scores import OUTLIER_FIELDS, outlier_rows
    from pal_slurm.store import ScoreRepo

    columns = choose(fields, OUTLIER_FIELDS, OUTLIER_FIELDS)
    rows = outlier_rows(ScoreRepo(palctl.store).placed(), classes, time.time())
    print_rows(rows, columns, as_json=as_json, empty="no outliers: no GPU is surely slower than 1.3")


def _show_bins(palctl: Palctl, classes: tuple[str, ...], by: str, as_json: bool, fields: str) -> None:
    from pal_slurm.knowledge import score_table
    from pal_slurm.report.inventory import cluster_of
    from pal_slurm.report.scores import BIN_FIELDS, bin_rows, binned_otherwise
    from pal_slurm.store import GpuRepo, ScoreRepo

    columns = choose(fields, BIN_FIELDS, BIN_FIELDS)
    cluster = cluster_of(GpuRepo(palctl.store).current())
    table = score_table(palctl.store, palctl.config, cluster, time.time(), classes)
    if by != "placement":
        table = binned_otherwise(table, ScoreRepo(palctl.store).placed(), cluster, by)
    print_rows(bin_rows(cluster, table), columns, as_json=as_json, empty=_EMPTY)


@command.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@pass_palctl
def import_scores(palctl: Palctl, file: Path) -> None:
    """Store scores or run times from FILE (CSV, JSON or JSON lines; `-` for standard input), all or nothing.

    Fields: node, slot, uuid, model, class or app, score or seconds (run times), measured_at.
    """
    from pal_slurm.cli.score_document import document_of
    from pal_slurm.cli.score_file import read_scores
    from pal_slurm.knowledge import known_apps
    from pal_slurm.store import GpuRepo, ScoreRepo

    name, now = str(file), time.time()
    try:
        data = sys.stdin.buffer.read() if name == "-" else file.read_bytes()
    except OSError as error:
        raise BadInput(f"{name}: can't be read: {error.strerror}") from error
    entries = read_scores(data, name, palctl.config.classes.names, now)
    apps = known_apps(palctl.store, palctl.config)
    document = document_of(entries, data, name, apps, GpuRepo(palctl.store).current(), now)
    added = ScoreRepo(palctl.store).add(document, now)
    if added.known_before:
        click.echo(f"{name}: this very file was imported before; nothing was changed")
        return
    older = f"; {added.kept} stored scores are newer and stay" if added.kept else ""
    click.echo(f"{name}: {added.scores} scores of {added.gpus} GPUs from {added.runs} measurements{older}")


@command.command(name="recompute")
@pass_palctl
def recompute(palctl: Palctl) -> None:
    """Make all nights and scores anew from the raw runs; scores that were imported as such stay."""
    from pal_slurm.ingest.run import recompute as make_anew

    rescored, learned = make_anew(palctl.store, palctl.config, time.time())
    click.echo(f"{rescored.scores} scores made anew from the runs of {rescored.nights} nights")
    if learned.samples:
        click.echo(f"{learned.scores} changed by what {learned.samples} stretches of jobs showed since")
    for alert in [*rescored.alerts, *learned.alerts]:
        click.echo(f"ALERT {alert.said}")
