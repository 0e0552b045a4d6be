"""palctl db: upgrade, check, vacuum, backup. In: the database in pal.yaml. Out: its schema, health, size; a copy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl
from pal_slurm.cli.outcomes import progress_bar
from pal_slurm.errors import StoreError

if TYPE_CHECKING:
    from pal_slurm.report.text import Row
    from pal_slurm.sim.engine import OnProgress
    from pal_slurm.store import Store
    from pal_slurm.store.retention import Rule
    from pal_slurm.store.space import GivenBack

FIELDS = ("table", "what", "older_than_days", "rows")


@click.group(name="db", short_help="Upgrade, check, shrink and copy the database.")
def command() -> None:
    """Upgrade, check, shrink and copy the database."""


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


@command.command()
@click.option("-n", "--dry-run", is_flag=True, help="Only say what is old.")
@click.option("--full", is_flag=True, help="Rewrite everything; nobody can write meanwhile.")
@output_options
@pass_palctl
def vacuum(palctl: Palctl, dry_run: bool, full: bool, as_json: bool, fields: str) -> None:
    """Forget now what is old, as pald does once an hour, and give the space back.

    What is old say database.keep_days and database.keep_runs_days. pald goes on meanwhile; killed in between, the rest
    is done the next time.
    """
    from pal_slurm.learning.knowledge import keep_of
    from pal_slurm.report.text import as_json as to_json
    from pal_slurm.store.engine import BATCH_WAIT_S
    from pal_slurm.store.retention import count, rules, sweep
    from pal_slurm.store.space import give_back
    from pal_slurm.store.tables import metadata

    columns = choose(fields, FIELDS, FIELDS)
    palctl.lock_wait_s = BATCH_WAIT_S
    store, which = palctl.store, rules(keep_of(palctl.config), time.time())
    rows = [count(store, rule) for rule in which]
    given = None
    if not dry_run:
        with progress_bar("rows") as tell:
            for n, rule in enumerate(which):
                rows[n] = sweep(store, rule, partial(_tell_rows, tell, sum(rows[:n]), sum(rows)))
        touched = {name for rule, removed in zip(which, rows, strict=True) if removed for name in rule.tables}
        with progress_bar("space") as tell:
            tables = set(metadata.tables) if full else touched
            given = give_back(store, tables, full=full, tell=tell or (lambda done, total: None))
    told = [_forgotten(rule, removed) for rule, removed in zip(which, rows, strict=True)]
    if as_json:
        space = {} if given is None else {"given_back_bytes": given.bytes, "free_bytes": given.free}
        removed = [{field: row[field] for field in columns} for row in told]
        click.echo(to_json({"database": store.shown, "dry_run": dry_run, "removed": removed, **space}))
    else:
        _say(store, told, columns, given)


def _tell_rows(tell: OnProgress | None, done: int, total: int, more: int) -> None:
    if tell is not None:
        tell(done + more, total)


def _forgotten(rule: Rule, rows: int) -> Row:
    return {
        "table": str(rule.table.name),
        "what": rule.what,
        "older_than_days": round(rule.kept_s / 86_400, 3),
        "rows": rows,
    }


def _say(store: Store, told: list[Row], columns: Sequence[str], given: GivenBack | None) -> None:
    from pal_slurm.report.text import table

    old = [row for row in told if row["rows"]]
    if old:
        click.echo("\n".join(table(old, columns)))
    click.echo(f"{store.shown}: ", nl=False)
    if given is None:
        click.echo("these would be removed" if old else "nothing is old")
        return
    click.echo(f"{given.bytes / 1e6:.1f} MB given back" if old or given.bytes else "nothing is old")
    if given.free > 1e6:
        click.echo(
            f"{given.free / 1e6:.1f} MB are free in the file and will be used again; to give them back, while pald "
            "can't write: palctl db vacuum --full"
        )


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@pass_palctl
def backup(palctl: Palctl, file: Path) -> None:
    """Copy an SQLite database that is in use to FILE, as it is at one moment, and look the copy over.

    Back up PostgreSQL and MariaDB with their own tools.
    """
    from pal_slurm.store.backup import backup as copy

    with progress_bar("copy") as tell:
        size = copy(palctl.store, file, tell or (lambda done, total: None))
    click.echo(f"{file}: {size / 1e6:.1f} MB")
