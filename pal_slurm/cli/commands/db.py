"""palctl db: upgrade, check. In: the database in pal.yaml. Out: its schema brought up to date; its health."""

from __future__ import annotations

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.errors import StoreError


@click.group(name="db", short_help="Upgrade and check the database.")
def command() -> None:
    """Upgrade and check the database."""


@command.command()
@pass_palctl
def upgrade(palctl: Palctl) -> None:
    """Make the database, or bring its schema to this release; killed in between, it is as it was before."""
    from pal_slurm.config import without_password
    from pal_slurm.store.migrate import upgrade_url

    before, after = upgrade_url(palctl.database_url)
    shown = without_password(palctl.database_url)
    if before is None:
        click.echo(f"{shown}: made, schema {after}")
    elif before == after:
        click.echo(f"{shown}: schema {after} already")
    else:
        click.echo(f"{shown}: schema {before} is now {after}")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@pass_palctl
def check(palctl: Palctl, as_json: bool) -> None:
    """Look for damage, and count rows."""
    from pal_slurm.report.text import as_json as to_json
    from pal_slurm.store.health import faults, row_counts
    from pal_slurm.store.tables import HEAD

    found, counts = faults(palctl.store), row_counts(palctl.store)
    if as_json:
        click.echo(to_json({"database": palctl.store.shown, "schema": HEAD, "faults": found, "rows": counts}))
    else:
        click.echo(f"{palctl.store.shown}: schema {HEAD}, " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    if found:
        raise StoreError("\n".join([f"database {palctl.store.shown} is damaged; restore a backup:", *found]))
