"""palctl simulate. In: a trace, a cluster, scores, policies. Out: a table side by side, JSON, a picture."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import choose
from pal_slurm.cli.numbers import Number, Whole
from pal_slurm.cli.outcomes import ALONE, ROWS, print_beside, print_columns, progress_bar, write_json
from pal_slurm.words import digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pal_slurm.sim.policies import PolicySpec


@click.command(name="simulate", short_help="Policies side by side on a trace.")
@click.argument("trace")
@click.option("--format", "fmt", default="auto", help="auto, jobs, pal, philly, gavel or sacct.")
@click.option(
    "--cluster",
    "cluster_text",
    default="16x4",
    help="NODESxGPUS, as 16x4, 64x8/16 (racks of 16), 64x8/16/32 (racks in groups of 32 nodes), a:8x4+b:8x4.",
)
@click.option("--scores", type=click.Path(path_type=Path), help="True scores, as for `palctl scores import`.")
@click.option("--known", type=click.Path(path_type=Path), help="What policies believe, if not the true scores.")
@click.option(
    "--profile", "profiles", multiple=True, metavar="CLASS=FILE", help="Measured run times; draw whole nodes."
)
@click.option("--policy", "policies", multiple=True, metavar="NAME|FILE.yaml", help="May be given several times.")
@click.option("--order", default="", help="slurm (FIFO here) or fifo, for all policies.")
@click.option("--placement", default="", help="In place of each policy's own; columns are named by it.")
@click.option("--fill", default="", help="none or easy, for all policies.")
@click.option("--moves/--no-moves", "moves", default=None, help="May running jobs be moved? Default: not for sacct.")
@click.option(
    "--moving", type=click.Choice(["", "none", "value"]), default="", show_choices=False,
    help="How: value or none, for all policies; else `pal` and gavel/* move jobs, and the others none.",
)  # fmt: skip
@click.option("--round", "round_s", default=0.0, type=Number(0), help="Seconds; 0 acts at once.")
@click.option("--restart-cost", default=0.0, type=Number(0), help="Seconds that a move or restart costs.")
@click.option("--first-start-cost", is_flag=True, help="The first start of a job costs as much as a restart.")
@click.option("--movable", default=1.0, type=Number(0, 1), help="Share of the jobs that may be moved once they run.")
@click.option(
    "--sharing", default=0.0, type=Number(0, 1), help="Share of the jobs that said pal:share; costs: --throughputs."
)
@click.option("--pairs-told", default=1.0, type=Number(0, 1), help="Share of the pairs whose costs policies are told.")
@click.option("--checkpoint", default=0.0, type=Number(0), help="Seconds between checkpoints; 0 loses nothing.")
@click.option("--locality", default=1.7, type=Number(1), help="Factor on jobs that span nodes.")
@click.option("--comm", default="", metavar="COSTS", help="Instead: flat, GPU/NODE/RACK/CLUSTER or FILE:NAME[,NAME].")
@click.option("--uplinks", default="", metavar="RACK[/GROUP]", help="Jobs that such a link serves at full speed.")
@click.option("--load", "share", type=Number(0.001, 100), help="Submissions as close as needs this share of the GPUs.")
@click.option("--default-class", default="A", help="Of jobs whose application the trace does not name.")
@click.option("--limit-factor", default=2.0, type=Number(1), help="Time limit over ideal run time, if untold.")
@click.option("--throughputs", type=click.Path(path_type=Path), help="gavel: simulation_throughputs.json.")
@click.option(
    "--tracked",
    default="",
    metavar="N|A-B|all",
    help="Jobs that count: the first N, or by place.",
)
@click.option("--seed", default=0, type=Whole(0), help="Of everything that is drawn.")
@click.option("--repeat", default=1, type=Whole(1, 10_000), help="Seeds; gives 95 % intervals.")
@click.option("--daemon", is_flag=True, help="Beside each policy: the same under pald, on a simulated Slurm.")
@click.option("--set", "keys", multiple=True, metavar="KEY=VALUE", help="For --daemon: cycle.interval_s=30, say.")
@click.option("-o", "--output", "fields", default="", metavar="FIELDS", help="Rows, by comma; `help` lists them.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write a list, one object per policy.")
@click.option("--plot", "plot_file", type=click.Path(path_type=Path), help="Write a PNG (first seed).")
def command(
    trace: str,
    fmt: str,
    cluster_text: str,
    scores: Path | None,
    known: Path | None,
    profiles: tuple[str, ...],
    policies: tuple[str, ...],
    order: str,
    placement: str,
    fill: str,
    moves: bool | None,
    moving: str,
    round_s: float,
    restart_cost: float,
    first_start_cost: bool,
    movable: float,
    sharing: float,
    pairs_told: float,
    checkpoint: float,
    locality: float,
    comm: str,
    uplinks: str,
    share: float | None,
    default_class: str,
    limit_factor: float,
    throughputs: Path | None,
    tracked: str,
    seed: int,
    repeat: int,
    daemon: bool,
    keys: tuple[str, ...],
    fields: str,
    json_file: Path | None,
    plot_file: Path | None,
) -> None:
    """Run policies on the same jobs and the same GPUs, and compare.

    TRACE is a file, or synthetic[:jobs=500,per_hour=12,arrivals=poisson|diurnal,most_gpus=16,class_a=0.5].
    Without --scores or --profile the cluster's spread is synthetic, like that measured on V100 nodes.
    """
    from pal_slurm.cli.whole_file import check_target
    from pal_slurm.sim.clusters import parse_cluster
    from pal_slurm.sim.compare import as_json, compare
    from pal_slurm.sim.costs import parse_costs, parse_uplinks
    from pal_slurm.sim.engine import ClusterRules
    from pal_slurm.sim.plots import plot
    from pal_slurm.sim.policies import POLICIES, Policies, Setting
    from pal_slurm.sim.traces import Options
    from pal_slurm.sim.with_daemon import under_pald
    from pal_slurm.sim.worlds import Sources, Worlds

    shown = choose(fields, ROWS, ROWS if sharing else ALONE)
    for path in filter(None, (json_file, plot_file)):  # said now, and not after hours of simulating
        check_target(str(path))
    known_policies = click.get_current_context().find_object(Policies) or POLICIES
    usual_fill, usual_tracked = known_policies.defaults(policies)
    read = [known_policies.read(text) for text in policies or ("packed", "pal")]
    specs = _specs(read, order, placement, fill or usual_fill, moving)
    cluster = parse_cluster(cluster_text)
    sources = Sources(
        trace=trace,
        fmt=fmt,
        options=Options(locality, default_class.upper(), limit_factor, throughputs),
        tracked=_tracked(tracked) if tracked else usual_tracked,
        movable=movable,
        sharing=sharing,
        pairs_told=pairs_told,
        scores=scores,
        known=known,
        profiles=dict(map(_profile, profiles)),
        costs=parse_costs(comm) if comm else None,
        share=share,
    )
    worlds = Worlds(sources, cluster, seed)
    if keys and not daemon:
        raise click.UsageError("--set is for --daemon.")
    if daemon and uplinks:
        raise click.UsageError("Under pald links are nobody's bottleneck: --uplinks is not for --daemon.")
    if daemon and (moves or moving not in ("", "none")):
        raise click.UsageError("pald moves no running jobs yet: --daemon compares with --no-moves.")
    may_move = worlds.kind != "sacct" and not daemon if moves is None else moves
    rules = ClusterRules(
        round_s, restart_cost, first_start_cost, checkpoint_s=checkpoint, uplinks=parse_uplinks(uplinks)
    )
    setting = Setting(cluster, locality, rules, may_move)
    seeds = range(seed, seed + repeat)
    gc.disable()  # a run makes no cycles, and looking for some among a long trace's jobs costs a tenth of the time
    try:
        with progress_bar("simulating") as progress:
            columns = compare(specs, setting, worlds, seeds, progress, known_policies)
    finally:
        gc.enable()
    with progress_bar("simulating pald") as progress:
        of_pald = [column for column in columns if column.spec.has_parts] if daemon else []
        beside = under_pald(of_pald, setting, worlds, seeds, _keys(keys), progress)
    columns += [found.column for found in beside]
    print_columns(columns, setting, worlds(seed), shown)
    if beside:
        print_beside(beside)
    if json_file is not None:
        entries = as_json(columns, setting, seeds)
        for entry, found in zip(entries[len(specs) :], beside, strict=True):
            entry["daemon"] = found.as_json()
        write_json(json_file, entries)
    if plot_file is not None:
        plot([column.outcomes[0] for column in columns], plot_file)


def _specs(read: Sequence[PolicySpec], order: str, placement: str, fill: str, moving: str) -> list[PolicySpec]:
    """The policies with what the options change in all of them; a file's own word wins."""
    import msgspec

    specs = []
    for spec in read:
        changed = {"order": spec.order or order, "fill": spec.fill or fill}
        if spec.has_parts:
            told = {"placement": spec.placement or placement, "moving": spec.moving or moving}
            other = [
                value for name, value in told.items() if value and value not in (getattr(spec, name), _own(spec, name))
            ]
            name = " with ".join((spec.label, ", ".join(other))) if other else spec.name
            changed |= told | {"name": name}
        specs.append(msgspec.structs.replace(spec, **changed))
    return specs


def _own(spec: PolicySpec, part: str) -> str:
    """What the named policy has of that part by itself."""
    from pal_slurm.policy.composition import NAMED, OURS

    base = spec.policy.partition("/")[0]
    if part == "moving":
        return "value" if base in OURS else ""
    return NAMED[base][1] if base in NAMED else ""


def _tracked(text: str) -> range | None:
    """Positions in the order of submission, from 0."""
    if text == "all":
        return None
    first, dash, last = text.rpartition("-")
    if not digits(last) or (dash and not digits(first)):
        raise click.BadParameter("a number of jobs, as 160, or places, as 4000-4999, or all", param_hint="--tracked")
    found = range(int(first), int(last) + 1) if dash else range(int(last))
    if not found:
        raise click.BadParameter("no job counts", param_hint="--tracked")
    return found


def _keys(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if not all(sign and "." in key for key, sign, _ in pairs):
        raise click.BadParameter("SECTION.KEY=VALUE, as cycle.interval_s=30", param_hint="--set")
    return {key: value for key, _, value in pairs}


def _profile(text: str) -> tuple[str, Path]:
    cls, _, path = text.partition("=")
    if not cls or not path:
        raise click.BadParameter("CLASS=FILE, as A=resnet.csv", param_hint="--profile")
    return cls.upper(), Path(path)
