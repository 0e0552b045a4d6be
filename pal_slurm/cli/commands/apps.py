"""palctl apps: list, set. In: NAME=CLASS. Out: what each application counts as, and who says so."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.errors import BadInput

if TYPE_CHECKING:
    from pal_slurm.learning.knowledge import KnowledgeKeeper
    from pal_slurm.model import Cluster

SHOWN = ("app", "class", "source", "jobs", "sure", "compute", "memory", "noise")
COMM = ("app", "node", "unlinked", "rack", "cluster", "comm_source", "apart", "apart_doubt", "apart_jobs")
PAIRS = ("app", "beside", "gpus", "model", "factor", "doubt", "source")
RATES = ("app", "class", "model", "rate", "doubt", "source", "seconds")
FIELDS = (*SHOWN, "base", "comm", "measured_base", *COMM[1:])


@click.group(name="apps", invoke_without_command=True, short_help="Applications and their classes.")
@click.option("--comm", is_flag=True, help="What distance costs each, who says so, and what its jobs show.")
@click.option("--rates", is_flag=True, help="How fast each is on each GPU model, how sure that is, and who says so.")
@click.option("--pairs", is_flag=True, help="What two on one GPU cost each other, how sure that is, and who says so.")
@click.option("--user", default="", metavar="NAME", help="With --rates or --pairs: as they count for that user's jobs.")
@output_options
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, fields: str, **asked: bool | str) -> None:
    """Applications and their classes; without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_apps, as_json=as_json, fields=fields, **asked)


@command.command(name="list")
@click.option("--comm", is_flag=True, help="What distance costs each, who says so, and what its jobs show.")
@click.option("--rates", is_flag=True, help="How fast each is on each GPU model, how sure that is, and who says so.")
@click.option("--pairs", is_flag=True, help="What two on one GPU cost each other, how sure that is, and who says so.")
@click.option("--user", default="", metavar="NAME", help="With --rates or --pairs: as they count for that user's jobs.")
@output_options
@pass_palctl
def list_apps(
    palctl: Palctl,
    as_json: bool = False,
    fields: str = "",
    comm: bool = False,
    rates: bool = False,
    pairs: bool = False,
    user: str = "",
) -> None:
    """Every application that was described or seen; pal.yaml wins over the database.

    --comm: NODE, UNLINKED (a node, not all linked directly), RACK and CLUSTER are the factors that placements count
    with. COMM_SOURCE: pal.yaml; jobs (nobody told, and its jobs show it, less the doubt); none, and distance counts
    nothing. APART is what its jobs took on several nodes over as many GPUs of one.

    COMPUTE and MEMORY are its utilisations (0 to 1) over JOBS jobs; SURE is the probability that its class is right, as
    far as those tell; NOISE is how much step times differ (log) between its jobs.

    --rates: RATE is the speed on a model's median GPU over that on its best model; DOUBT is how far off it may be, as a
    share. SOURCE: told (pal.yaml), app or runs (its own jobs' step times, or how long they ran), class, fleet (the
    nightly profile), none. ? is an application of which nothing is known.

    --pairs: FACTOR is how many times as long a step of APP takes while BESIDE has the same GPU; empty: they do not fit.
    SOURCE: told (pal.yaml), own (the user's own jobs), users (what three or more others agree on), likely (estimated),
    measure (pal.yaml asks to have it measured; FACTOR is assumed until then).
    """
    if pairs:
        _pairs(palctl, user, as_json, fields)
        return
    if rates or user:
        _rates(palctl, user, as_json, fields)
        return
    from pal_slurm.learning.telling import app_rows

    if palctl.asks_pald:
        columns = choose(fields, FIELDS, FIELDS if as_json else COMM if comm else SHOWN)
        print_rows(palctl.ask("apps").rows, columns, as_json=as_json, empty="no application of yours is known yet")
        return
    default = palctl.config.classes.default
    rows = app_rows(palctl.store, palctl.config)
    columns = choose(fields, FIELDS, FIELDS if as_json else COMM if comm else SHOWN)
    empty = f"no application is known; each counts as class {default}. Say more with: palctl apps set NAME=CLASS"
    print_rows(rows, columns, as_json=as_json, empty=empty)


def _known(palctl: Palctl, option: str) -> tuple[KnowledgeKeeper, Cluster]:
    """What plans count with, and for which GPUs."""
    from pal_slurm.errors import SlurmUnavailable
    from pal_slurm.learning.knowledge import KnowledgeKeeper
    from pal_slurm.store.clusters import known_clusters

    if palctl.asks_pald:
        raise BadInput(f"{option} is for who may read pal.yaml")
    try:
        with palctl.slurm() as slurm:
            cluster, name = slurm.snapshot().cluster, slurm.setup().cluster_name
    except SlurmUnavailable:
        names = known_clusters(palctl.store)
        cluster, name = palctl.placed()[1], palctl.cluster if names else ""
    return KnowledgeKeeper(palctl.store, palctl.config, cluster=name), cluster


def _pairs(palctl: Palctl, user: str, as_json: bool, fields: str) -> None:
    from pal_slurm.learning.telling import pair_rows

    columns = choose(fields, PAIRS, PAIRS)
    known, cluster = _known(palctl, "--pairs")
    rows = pair_rows(known.pairs(cluster, time.time()).of(user))
    empty = "nothing is known of two on one GPU: tell it in sharing.pairs of pal.yaml"
    print_rows(rows, columns, as_json=as_json, empty=empty)


def _rates(palctl: Palctl, user: str, as_json: bool, fields: str) -> None:
    from pal_slurm.learning.telling import rate_rows

    columns = choose(fields, RATES, RATES)
    known, cluster = _known(palctl, "--rates")
    apps = known.rated(cluster, time.time())
    models = [model for model in cluster.models if model]
    known_ones = f"there is one GPU model, {models[0]}" if models else "no GPU model is known"
    rows = rate_rows(apps, cluster.models, user)
    print_rows(rows, columns, as_json=as_json, empty=f"{known_ones}: all rates are 1")


@command.command(name="set")
@click.argument("pairs", nargs=-1, required=True, metavar="NAME=CLASS ...")
@pass_palctl
def set_apps(palctl: Palctl, pairs: tuple[str, ...]) -> None:
    """Say which class applications belong to: palctl apps set resnet=A bert=B"""
    from pal_slurm.model import App
    from pal_slurm.store import AppRepo

    wanted = dict(_pair(text, palctl.config.classes.names) for text in pairs)
    repo = AppRepo(palctl.store)
    stored = repo.all()
    repo.set(
        [replace(stored[n].app, cls=c) if n in stored else App(n, c) for n, c in wanted.items()], "admin", time.time()
    )
    told = palctl.config.known_apps().known
    for name, cls in wanted.items():
        click.echo(f"{name} is class {cls}")
        if name in told and told[name].cls != cls:
            click.echo(f"palctl: pal.yaml says {name} is class {told[name].cls}, and pal.yaml wins", err=True)


def _pair(text: str, classes: tuple[str, ...]) -> tuple[str, str]:
    from pal_slurm.model import APP_NAME

    name, equals, cls = text.partition("=")
    if not equals or not APP_NAME.fullmatch(name):
        raise BadInput(f"{text!r} is not NAME=CLASS; a name has letters, digits and ._+- only, at most 64")
    if cls not in classes:
        raise BadInput(f"{text!r}: {cls!r} is none of the classes {', '.join(classes)}")
    return name, cls
