"""palctl gain. In: accounting of the last weeks, scores. Out: one page: what placement would have saved."""

from __future__ import annotations

import io
import os
import re
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, pass_palctl
from pal_slurm.cli.numbers import Number, Whole
from pal_slurm.cli.outcomes import print_table, progress_bar
from pal_slurm.cli.periods import since_option
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput, SlurmUnavailable, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pal_slurm.config import Config
    from pal_slurm.model import Apps, Cluster, ScoreTable
    from pal_slurm.sim.compare import Interval
    from pal_slurm.sim.gain_report import GainReport, Saved
    from pal_slurm.sim.traces.reading import Table
    from pal_slurm.sim.traces.sacct import Ran

MOST_NOTES = 10  # of rows that can't be read


@click.command(
    name="gain", short_help="What placement would have saved on your last month, from sacct; no pald needed."
)
@click.option(
    "--sacct", "sacct_file", type=click.Path(path_type=Path), help="Output of sacct --parsable2; else it is run."
)
@since_option("30d", "How far back to ask sacct")
@click.option(
    "--scores", type=click.Path(path_type=Path), help="Scores as for `palctl scores import`; else the database's."
)
@click.option("--gpus-per-node", type=Whole(1, 64), help="Default: the most that a one-node job had.")
@click.option(
    "--models", default="", metavar="MODEL=NODES,...", help="GPU models of nodes: v100=n[1-8],h100=n[9-10]; else known."
)
@click.option("--locality", default=1.7, type=Number(1), help="Factor on jobs that span nodes.")
@click.option("--repeat", default=10, type=Whole(2, 1000), help="Replays, for the interval.")
@click.option("--seed", default=0, type=Whole(0), help="Of everything that is drawn.")
@click.option("--moves", is_flag=True, help="Also with moves of the running jobs that pald may move.")
@click.option("--move-cost", default=60.0, type=Number(0), help="Seconds that a moved job does nothing.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON.")
@click.option(
    "-o", "--output", "fields", default="", metavar="FIELDS", help="Only these of the savings, by comma; `help` lists."
)
@pass_palctl
def command(
    palctl: Palctl,
    sacct_file: Path | None,
    since: float,
    scores: Path | None,
    gpus_per_node: int | None,
    models: str,
    locality: float,
    repeat: int,
    seed: int,
    moves: bool,
    move_cost: float,
    as_json: bool,
    fields: str,
) -> None:
    """Replay the GPU jobs of the last days as Slurm and as pald would place them, with this site's own scores.

    From your accounting (sacct): it needs no pald. What pald really gained, from its own records: `palctl gained`.
    """
    from pal_slurm.config import Config
    from pal_slurm.sim.accounted import cluster_of, placed
    from pal_slurm.sim.gain import estimate
    from pal_slurm.sim.gain_report import Month
    from pal_slurm.sim.traces.sacct import read_rows

    shown = choose(fields, SAVINGS, SAVINGS)
    if fields and as_json:
        raise click.UsageError("--json tells all figures: leave out -o or --json")
    config = _config(palctl)
    with _accounting(config, sacct_file, since) as table:
        rans: list[Ran] = list(read_rows(table))
        left_out = LeftOut(table.skipped, table.notes)
    if not rans:
        raise BadInput(
            f"{table.path}: no GPU job has ended there; {left_out.rows} rows were left out. Accounting knows of GPUs "
            "where slurm.conf has AccountingStorageTRES=gres/gpu."
        )
    rans, odd = placed(rans)
    left_out = LeftOut(left_out.rows + len(odd), [*left_out.notes, *(f"left out: {said}" for said in odd)])
    cluster = cluster_of(rans, gpus_per_node, _models(palctl, config, models))
    known, apps = _knowledge(palctl, config, cluster, scores)
    rans = _by_patterns(rans, config or Config(), apps)
    month = Month(rans, cluster, known, apps, locality, move_cost if moves else None, (config or Config()).moves)
    if config is None:
        month = replace(month, note=f"{palctl.config_path} is not there: classes and applications are those published.")
    with progress_bar("replaying") as progress:
        report = estimate(month, repeat, seed, progress)
    if as_json:
        from pal_slurm.report.text import as_json as to_json

        left_out.tell(err=True)
        click.echo(to_json(report))
    elif fields:
        _print_savings(report, shown)
    else:
        _print(report, left_out)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of accounting that count for nothing; notes: of those that can't be read, which and why."""

    rows: int
    notes: list[str]

    def tell(self, *, err: bool = False) -> None:
        for note in self.notes[:MOST_NOTES]:
            say(f"- {note}", err=err)
        if len(self.notes) > MOST_NOTES:
            say(f"- and {len(self.notes) - MOST_NOTES} more", err=err)


def _config(palctl: Palctl) -> Config | None:
    """pal.yaml; None where nobody named one and there is none that this user may read. A bad one is an error."""
    if palctl.names_config or os.access(palctl.config_path, os.R_OK):
        return palctl.config
    return None


def _by_patterns(rans: Sequence[Ran], config: Config, apps: Apps) -> list[Ran]:
    """Jobs that nobody tagged, by the `patterns` of pal.yaml; accounting tells names of jobs, and of no script."""
    from pal_slurm.learning.patterns import Patterns

    patterns = Patterns(config.patterns)
    found = ((ran, patterns.app_of(ran.app, ran.title, "", apps.known)) for ran in rans)
    return [replace(ran, app=app) if app else ran for ran, app in found]


def _models(palctl: Palctl, config: Config | None, told: str) -> dict[str, str]:
    """GPU model by node: as told, else as the database has the cards, by the site's own names for them."""
    from pal_slurm.model.hostlist import expand_hosts
    from pal_slurm.store import GpuRepo

    found: dict[str, str] = {}
    for item in re.split(r",(?![^\[]*\])", told) if told else ():
        model, equals, nodes = item.partition("=")
        names = expand_hosts(nodes) if equals and model else None
        if not names:
            raise BadInput(f"--models {told!r}: {item!r} is not of the form MODEL=NODES")
        found |= dict.fromkeys(names, model)
    if told or config is None:
        return found
    try:
        named = config.cluster.models
        for stay in GpuRepo(palctl.store).current():
            found[stay.node] = next((name for name in named if name.lower() in stay.model.lower()), stay.model)
    except StoreError:
        return {}
    return {node: model for node, model in found.items() if model}


def _accounting(config: Config | None, file: Path | None, since: float) -> Table:
    from pal_slurm.sim.traces.reading import Table
    from pal_slurm.sim.traces.sacct import COMMAND, SHOWN

    if file is not None:
        return Table(file)
    words = COMMAND.replace("now-30days", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since))).split(" ")
    bin_dir = config.cluster.bin_dir if config is not None else ""  # without a pal.yaml the one on PATH
    sacct = str(Path(bin_dir) / "sacct") if bin_dir else "sacct"
    try:
        done = subprocess.run([sacct, *words[1:]], capture_output=True, timeout=600, check=True)
    except FileNotFoundError:
        raise SlurmUnavailable("There is no sacct here; run it elsewhere and give --sacct FILE.") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as exc:
        said = (exc.stderr or b"").decode(errors="replace").strip()[:300]
        raise SlurmUnavailable(f"`{SHOWN}` failed: {said or exc}") from exc
    return Table(Path("sacct"), io.StringIO(done.stdout.decode("utf-8", errors="replace")))


def _knowledge(palctl: Palctl, config: Config | None, cluster: Cluster, file: Path | None) -> tuple[ScoreTable, Apps]:
    """Scores of the file, else the database's; applications and classes as pald knows them, over the published ones."""
    from pal_slurm.config import Config
    from pal_slurm.intake.score_document import placed_scores
    from pal_slurm.learning.knowledge import KnowledgeKeeper, score_table
    from pal_slurm.model import neutral_scores
    from pal_slurm.sim.gain import table_for
    from pal_slurm.sim.traces.pal import PUBLISHED

    classes = Config().classes.names if config is None else config.classes.names
    scores, apps = neutral_scores(cluster, classes), Config().known_apps() if config is None else config.known_apps()
    if config is not None:
        try:
            now = time.time()
            scores = score_table(palctl.store, config, cluster, now)
            apps = KnowledgeKeeper(palctl.store, config).rated(cluster, now)
        except StoreError as why:
            if file is None:
                say(f"note: no scores: {why}", err=True)
    published = {name: app for name, app in PUBLISHED.known.items() if app.cls in classes}
    apps = replace(apps, known={**published, **apps.known})
    if file is None:
        return scores, apps
    told = placed_scores(str(file), apps, () if config is None else classes)
    there = [place for place in told if place[0] in cluster.node_index and place[1] < cluster.width]
    if not there:
        node, slot = next(iter(told))
        raise BadInput(
            f"{file}: node: none of its {len(told)} GPUs is one of accounting's: {node} slot {slot} for example; "
            f"accounting has {cluster.node_names[0]} with slots 0 to {cluster.width - 1}. Name nodes as NodeList does."
        )
    if len(there) < len(told):
        lost = sorted(set(told) - set(there))
        say(
            f"note: {len(lost)} of {len(told)} GPUs of {file} are of no node that accounting names, or of a slot "
            f"beyond --gpus-per-node, as {lost[0][0]} slot {lost[0][1]}: they count for nothing",
            err=True,
        )
    if config is None and not {cls for row in told.values() for cls in row} <= set(classes):
        classes = ()  # the file has its own
    return table_for(cluster, told, classes), apps


def _print(report: GainReport, left_out: LeftOut) -> None:
    from pal_slurm.sim.accounted_evidence import sentence

    click.echo(
        f"{report.jobs} GPU jobs of {report.users} users in {report.days:.1f} days on {report.nodes} nodes with "
        f"{report.gpus} GPUs; {report.gpu_hours:,.0f} GPU hours, {100 * report.load:.0f} % of what there was."
    )
    click.echo(f"{left_out.rows} rows of accounting left out (steps, jobs without GPUs, not yet ended, unreadable).")
    left_out.tell()
    click.echo()
    table = [["class", "GPUs known", "5 %", "95 %", "slowest", "", "over 1.3"]]
    for s in report.spreads:
        table.append(
            [s.cls, str(s.known), f"{s.low:.3f}", f"{s.high:.3f}", f"{s.worst:.3f}", s.worst_gpu, str(s.outliers)]
        )
    if report.spreads:
        click.echo("Your GPUs (run time over the median; 1.2 is 20 % slower):")
        print_table(table)
        click.echo()
    _print_savings(report, SAVINGS)
    click.echo()
    say(report.verdict + "\n")
    if report.spreads:
        say(sentence(report.seen) + "\n")
    click.echo("Assumed:")
    for line in report.assumptions:
        say(f"- {line}")


SAVINGS = (
    "saved_gpu_hours", "packed_gpu_hours", "saved_jct", "saved_p99_jct", "sizes", "most", "moving.saved_gpu_hours",
    "moving.saved_jct", "moving.beyond_pal", "moving.moves_per_job",
)  # fmt: skip


def _print_savings(report: GainReport, shown: Sequence[str]) -> None:
    """By their names in --json; a column for each class that unknown applications are taken for."""
    columns = [_rows(one) for one in report.saved]
    if len(columns) > 1:
        heads = [f"all of class {one.unknown_as}" for one in report.saved]
        click.echo(f"{f'{report.unknown} jobs of unknown applications:':52}{heads[0]:32}{heads[1]}")
    for name in shown:
        for lines in zip(*(rows.get(name, ()) for rows in columns), strict=True):
            click.echo(f"{lines[0][0]:52}" + "".join(f"{told:32}" for _, told in lines).rstrip())


def _rows(saved: Saved) -> dict[str, list[tuple[str, str]]]:
    """Those of moves where moves were asked for, and some job may be moved."""
    rows = {
        "saved_gpu_hours": ("GPU hours saved, against accounting", _share(saved.saved_gpu_hours)),
        "packed_gpu_hours": ("- by packing alone, blind to scores", _share(saved.packed_gpu_hours)),
        "saved_jct": ("Time from submission to end saved, against packing", _share(saved.saved_jct)),
        "saved_p99_jct": ("- of the 99th percentile", _share(saved.saved_p99_jct)),
        "most": ("The most that any placement could save", f"{100 * saved.most:.1f} %"),
    }
    if (moving := saved.moving) is not None:
        rows |= {
            "moving.saved_gpu_hours": (
                "With moves: GPU hours saved, against accounting",
                _share(moving.saved_gpu_hours),
            ),
            "moving.saved_jct": ("- time from submission to end, against packing", _share(moving.saved_jct)),
            "moving.beyond_pal": ("- the same, against placement without moves", _share(moving.beyond_pal)),
            "moving.moves_per_job": (f"- moves a job, at {moving.cost_s:g} s each", f"{moving.moves_per_job:.2f}"),
        }
    sizes = [
        (f"- of jobs of {of.gpus} GPU{'s' * (of.gpus != '1')} ({of.jobs})", _share(of.saved_jct)) for of in saved.sizes
    ]
    return {name: [row] for name, row in rows.items()} | {"sizes": sizes}


def _share(value: Interval) -> str:
    low, high = value.mean - (value.reach or 0), value.mean + (value.reach or 0)
    return f"{100 * value.mean:.1f} % (95 %: {100 * low:.1f} to {100 * high:.1f})".replace("-0.0", "0.0")
