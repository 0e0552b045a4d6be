"""palctl config: check, show, sample, explain. In: pal.yaml. Out: its faults, what is in force, what may be in it."""

from __future__ import annotations

from pathlib import Path

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput, ConfigError


@click.group(name="config", short_help="Check, show and explain pal.yaml.")
def command() -> None:
    """Check, show and explain pal.yaml."""


@command.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Faults as a list of {file, line, key, message}.")
@pass_palctl
def check(palctl: Palctl, file: Path | None, as_json: bool) -> None:
    """Name every mistake in FILE (default: the file in use), each with line and key."""
    from pal_slurm.config import check as check_file
    from pal_slurm.report.text import as_json as to_json

    path = file or palctl.config_path
    faults = check_file(path)
    if as_json:
        click.echo(to_json(faults))
    else:
        for fault in faults:
            say(fault, err=True)
    if faults:
        raise click.exceptions.Exit(ConfigError.exit_code)
    if not as_json:
        say(f"{path}: good")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@pass_palctl
def show(palctl: Palctl, as_json: bool) -> None:
    """Every setting in force, defaults included. Passwords are never shown."""
    import msgspec

    from pal_slurm.config import plain, without_password
    from pal_slurm.report.text import as_json as to_json

    values = msgspec.to_builtins(palctl.config)
    values["database"]["url"] = without_password(palctl.database_url)
    if as_json:
        click.echo(to_json(values))
        return
    for key, value in _flat(values):
        say(f"{key}: {plain(value)}")


@command.command()
def sample() -> None:
    """A pal.yaml with every key, its default and why it exists."""
    from pal_slurm.config import sample as text

    click.echo(text(), nl=False)


@command.command()
@click.argument("key")
def explain(key: str) -> None:
    """One key: type, unit, default, why. KEY is written with dots: lease.length_s."""
    import difflib

    from pal_slurm.config import explain as explained
    from pal_slurm.config.keys import all_keys

    text = explained(key)
    if text is None:
        near = difflib.get_close_matches(key, [k.path for k in all_keys()], n=3, cutoff=0.4)
        raise BadInput(f"no key {key!r}; did you mean {' or '.join(near)}?" if near else f"no key {key!r}")
    click.echo(text)


def _flat(values: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, value))
    return rows
