"""palctl apps: list, set. In: NAME=CLASS. Out: what each application counts as, and who says so."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.errors import BadInput

if TYPE_CHECKING:
    from pal_slurm.model import App
    from pal_slurm.report.text import Value

FIELDS = ("app", "class", "source", "base", "comm")


@click.group(name="apps", invoke_without_command=True, short_help="Applications and their classes.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Applications and their classes; without a command: list them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_apps)


@command.command(name="list")
@output_options
@pass_palctl
def list_apps(palctl: Palctl, as_json: bool = False, fields: str = "") -> None:
    """Every known application; pal.yaml wins over the database."""
    from pal_slurm.model import Tier
    from pal_slurm.store import AppRepo

    def row(app: App, source: str) -> dict[str, Value]:
        comm = {tier.name.lower(): factor for tier, factor in zip(Tier, app.comm, strict=True)}
        return {"app": app.name, "class": app.cls, "source": source, "base": dict(app.base), "comm": comm}

    rows = {name: row(stored.app, stored.source) for name, stored in AppRepo(palctl.store).all().items()}
    rows |= {name: row(app, "pal.yaml") for name, app in palctl.config.known_apps().known.items()}
    columns = choose(fields, FIELDS, FIELDS)
    default = palctl.config.classes.default
    empty = f"no application is described; each counts as class {default}. Say more with: palctl apps set NAME=CLASS"
    print_rows([rows[name] for name in sorted(rows)], columns, as_json=as_json, empty=empty)


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
