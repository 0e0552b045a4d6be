"""palctl gain. In: accounting of the last weeks, scores. Out: one page: what placement would have saved."""

from __future__ import annotations

import io
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, pass_palctl
from pal_slurm.cli.numbers import Number, Whole
from pal_slurm.cli.outcomes import print_table, progress_bar
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput, ConfigError, SlurmUnavailable, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pal_slurm.model import Apps, Cluster, ScoreTable
    from pal_slurm.sim.compare import Interval
    from pal_slurm.sim.gain import GainReport
    from pal_slurm.sim.traces.reading import Table
    from pal_slurm.sim.traces.sacct import Ran


@click.command(name="gain", short_help="What placement would have saved on your own last month.")
@click.option(
    "--sacct", "sacct_file", type=click.Path(path_type=Path), help="Output of sacct --parsable2; else it is run."
)
@click.option("--days", default=30, type=Whole(1, 3650), help="How far back to ask sacct.")
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
@click.option("--moves", is_flag=True, help="Also as if every job could be moved while it runs.")
@click.option("--move-cost", default=60.0, type=Number(0), help="Seconds that a moved job does nothing.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON.")
@click.option(
    "-o", "--output", "fields", default="", metavar="FIELDS", help="Only these of the savings, by comma; `help` lists."
)
@pass_palctl
def command(
    palctl: Palctl,
    sacct_file: Path | None,
    days: int,
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
    """Replay the GPU jobs of the last days as Slurm and as pald would place them, with this site's own scores."""
    from pal_slurm.sim.accounted import cluster_of
    from pal_slurm.sim.accounted_rates import with_rates
    from pal_slurm.sim.gain import estimate
    from pal_slurm.sim.traces.sacct import read_rows

    shown = choose(fields, SAVINGS, SAVINGS)
    if fields and as_json:
        raise click.UsageError("--json tells all figures: leave out -o or --json")
    with _accounting(palctl, sacct_file, days) as table:
        rans: list[Ran] = list(read_rows(table))
        left_out = table.skipped
    if not rans:
        raise BadInput(
            f"{table.path}: no GPU job has ended there; {left_out} rows were left out. Accounting knows of GPUs where "
            "slurm.conf has AccountingStorageTRES=gres/gpu."
        )
    cluster = cluster_of(rans, gpus_per_node, _models(palctl, models))
    known, apps = _knowledge(palctl, cluster, scores)
    rans, apps = with_rates(rans, cluster, apps)
    with progress_bar("replaying") as progress:
        cost = move_cost if moves else None
        report = estimate(rans, cluster, known, apps, locality, repeat, seed, progress, cost)
    if as_json:
        from pal_slurm.report.text import as_json as to_json

        click.echo(to_json(report))
    elif fields:
        _print_savings(report, shown)
    else:
        _print(report, left_out)


def _models(palctl: Palctl, told: str) -> dict[str, str]:
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
    if told:
        return found
    try:
        named = palctl.config.cluster.models
        for stay in GpuRepo(palctl.store).current():
            found[stay.node] = next((name for name in named if name.lower() in stay.model.lower()), stay.model)
    except (ConfigError, StoreError):
        return {}
    return {node: model for node, model in found.items() if model}


def _accounting(palctl: Palctl, file: Path | None, days: int) -> Table:
    from pal_slurm.sim.traces.reading import Table
    from pal_slurm.sim.traces.sacct import COMMAND

    if file is not None:
        return Table(file)
    words = COMMAND.replace("now-30days", f"now-{days}days").split()
    try:
        done = subprocess.run([_sacct(palctl), *words[1:]], capture_output=True, timeout=600, check=True)
    except FileNotFoundError:
        raise SlurmUnavailable("There is no sacct here; run it elsewhere and give --sacct FILE.") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as exc:
        said = (exc.stderr or b"").decode(errors="replace").strip()[:300]
        raise SlurmUnavailable(f"`{' '.join(words)}` failed: {said or exc}") from exc
    return Table(Path("sacct"), io.StringIO(done.stdout.decode("utf-8", errors="replace")))


def _sacct(palctl: Palctl) -> str:
    """Where pal.yaml says that Slurm's commands are; without a pal.yaml the one on PATH."""
    try:
        bin_dir = palctl.config.cluster.bin_dir
    except ConfigError:
        bin_dir = ""
    return str(Path(bin_dir) / "sacct") if bin_dir else "sacct"


def _knowledge(palctl: Palctl, cluster: Cluster, file: Path | None) -> tuple[ScoreTable, Apps]:
    """Scores and applications: of a file and the published classes, else what pald would use."""
    from pal_slurm.intake.score_document import placed_scores
    from pal_slurm.model import neutral_scores
    from pal_slurm.sim.gain import table_for
    from pal_slurm.sim.traces.pal import PUBLISHED

    if file is not None:
        return table_for(cluster, placed_scores(str(file), PUBLISHED)), PUBLISHED
    try:
        from pal_slurm.learning.knowledge import KnowledgeKeeper, score_table

        now = time.time()
        scores = score_table(palctl.store, palctl.config, cluster, now)
        return scores, KnowledgeKeeper(palctl.store, palctl.config).rated(cluster, now)
    except (ConfigError, StoreError) as why:
        say(f"note: no scores: {why}", err=True)
        return neutral_scores(cluster), PUBLISHED


def _print(report: GainReport, left_out: int) -> None:
    click.echo(
        f"{report.jobs} GPU jobs of {report.users} users in {report.days:.1f} days on {report.nodes} nodes with "
        f"{report.gpus} GPUs; {report.gpu_hours:,.0f} GPU hours, {100 * report.load:.0f} % of what there was."
    )
    click.echo(f"{left_out} rows of accounting left out (steps, jobs without GPUs, not yet ended).\n")
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
    click.echo("Assumed:")
    for line in report.assumptions:
        say(f"- {line}")


SAVINGS = (
    "saved_gpu_hours", "packed_gpu_hours", "saved_jct", "most", "moving.saved_gpu_hours", "moving.saved_jct",
    "moving.beyond_pal", "moving.moves_per_job",
)  # fmt: skip


def _print_savings(report: GainReport, shown: Sequence[str]) -> None:
    """By their names in --json; those of moves where moves were asked for."""
    rows = {
        "saved_gpu_hours": ("GPU hours saved, against accounting", _share(report.saved_gpu_hours)),
        "packed_gpu_hours": ("- by packing alone, blind to scores", _share(report.packed_gpu_hours)),
        "saved_jct": ("Time from submission to end saved, against packing", _share(report.saved_jct)),
        "most": ("The most that any placement could save", f"{100 * report.most:.1f} %"),
    }
    if (moving := report.moving) is not None:
        rows |= {
            "moving.saved_gpu_hours": (
                "With moves: GPU hours saved, against accounting",
                _share(moving.saved_gpu_hours),
            ),
            "moving.saved_jct": ("- time from submission to end, against packing", _share(moving.saved_jct)),
            "moving.beyond_pal": ("- the same, against placement without moves", _share(moving.beyond_pal)),
            "moving.moves_per_job": (f"- moves a job, at {moving.cost_s:g} s each", f"{moving.moves_per_job:.2f}"),
        }
    for name in shown:
        if name in rows:
            title, value = rows[name]
            click.echo(f"{title:52}{value}")


def _share(value: Interval) -> str:
    low, high = value.mean - (value.reach or 0), value.mean + (value.reach or 0)
    return f"{100 * value.mean:.1f} % (95 %: {100 * low:.1f} to {100 * high:.1f})".replace("-0.0", "0.0")
