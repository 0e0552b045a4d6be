"""palctl doctor. In: a site's files, its running Slurm. Out: ok or mend, line by line; exit code 1: not ready."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.say import say
from pal_slurm.words import plain

if TYPE_CHECKING:
    from pal_slurm.doctor.examine import Checked
    from pal_slurm.report.text import Row

FIELDS = ("check", "health", "said", "add", "where", "then")
_COLOURS = {"ok": "green", "mend": "red", "note": "yellow"}
_INDENT = " " * 18


@click.command(name="doctor", short_help="Is this site ready? ok or mend, with the very line to add.")
@click.option("--slurm-conf", default="", metavar="FILE", help="The slurm.conf to look at; default: the one in use.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path("/"),
    help="Look at the files below DIR (an image, a copy of a site) and ask no running Slurm.",
)
@click.option("--fix", is_flag=True, help="Mend what needs nothing but files of pal-slurm's own, then look again.")
@output_options
@pass_palctl
def command(palctl: Palctl, slurm_conf: str, root: Path, fix: bool, as_json: bool, fields: str) -> None:
    """Look at slurm.conf, gres.conf, plugins, rights, munge, lua, units, database, clocks, topology and settings.

    Each line is ok, note (a choice of yours, or what can't be seen from here) or mend, with the line to add and where.
    Runs before installation too, as any user, and changes nothing without --fix; with it only files of pal-slurm's
    own are written, never Slurm's. Exit code 1 when something is to be mended.
    """
    from pal_slurm.doctor.examine import examine, mended, ready
    from pal_slurm.doctor.site import Site
    from pal_slurm.slurm.commands.run import Commands

    columns = choose(fields, FIELDS, FIELDS)
    told = palctl.config_path
    pal_yaml = told.absolute() if root.resolve() == Path("/") else told  # a relative one is of where this was called
    site = Site(root.resolve(), str(pal_yaml), slurm_conf)
    where = site.pal.cluster.bin_dir
    if root == Path("/"):
        site.commands = Commands(Path(where) if where and Path(where).is_dir() else None, site.pal.cluster.timeout_s)
    found = examine(site)
    done = mended(found) if fix else []
    if done:
        found = examine(Site(site.root, site.pal_yaml, slurm_conf, site.commands))
    if as_json:
        click.echo(json.dumps(_plain(found, done), indent=2))
    else:
        for sentence in done:
            say(f"mended: {sentence}")
        _tell(found, columns if fields else None)
    if not ready(found):
        sys.exit(1)


def _plain(found: Sequence[Checked], done: Sequence[str]) -> dict[str, object]:
    from pal_slurm.doctor.examine import ready

    lines = [_row(one) for one in found]
    return {"ready": ready(found), "mended": list(done), "lines": lines}


def _row(one: Checked) -> Row:
    told = one.advice
    return {
        "check": one.check, "health": told.health.value, "said": told.said, "add": told.add, "where": told.where,
        "then": told.then,
    }  # fmt: skip


def _tell(found: Sequence[Checked], columns: Sequence[str] | None) -> None:
    if columns is not None:
        print_rows([_row(one) for one in found], columns, as_json=False, empty="")
        return
    for one in found:
        told = one.advice
        click.echo(f"{click.style(f'{told.health:<5}', fg=_COLOURS[told.health])}{one.check:<13}{plain(told.said)}")
        if told.add:
            say(f"{_INDENT}{told.where + ': ' if told.where else ''}{told.add}")
        if told.then:
            say(f"{_INDENT}then: {told.then}")
    left = sum(one.advice.health == "mend" for one in found)
    click.echo(f"{left} to mend" if left else "ready")
    if os.geteuid() != 0 and left:
        say("some of it may be there and hidden from you: root sees more", err=True)
