"""What commands share: config and store when first needed, and the output options. In: options. Out: printed rows."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pal_slurm.cli.screen import coloured, show
from pal_slurm.errors import BadInput, ConfigError, StoreError

if TYPE_CHECKING:  # loaded when a command needs them
    from pal_slurm.cli.asking import PaldSaid
    from pal_slurm.config import Config
    from pal_slurm.config.read import Mistake
    from pal_slurm.model import Cluster, ScoreTable
    from pal_slurm.report.text import Paint, Row
    from pal_slurm.slurm.port import Slurm
    from pal_slurm.store import Stay, Store

F = TypeVar("F", bound=Callable[..., Any])


class Palctl:
    """The object of every command's context."""

    def __init__(self, config: Path | None, cluster: str) -> None:
        self._config = config
        self._cluster = cluster
        self.lock_wait_s: float | None = None  # at the database, told before it is opened

    @cached_property
    def config_path(self) -> Path:
        from pal_slurm.config import config_path

        return config_path(self._config)

    @property
    def names_config(self) -> bool:
        """Whether somebody said which pal.yaml to take."""
        return self._config is not None or bool(os.environ.get("PAL_CONFIG"))

    @cached_property
    def config(self) -> Config:
        from pal_slurm.config import load

        self._refuse_users()
        return load(self.config_path)

    def take_what_is_right(self) -> list[Mistake]:
        """pal.yaml as far as it is right, defaults for the rest; its mistakes."""
        from pal_slurm.config import parse

        self._refuse_users()
        self.config, mistakes = parse(self.config_path)
        return mistakes

    def _refuse_users(self) -> None:
        if self._for_admins:
            raise ConfigError(
                f"{self.config_path} is not there (palctl config sample prints one), or not for you to read: this is "
                "for admins. Of your own jobs tell, where pald runs: palctl why JOBID, palctl jobs, palctl apps"
            )

    @cached_property
    def _for_admins(self) -> bool:
        """Who is not root, named no file of his own and can't read the site's is an ordinary user."""
        from pal_slurm.cli.asking import is_told

        named = self._config is not None or ("PAL_CONFIG" in os.environ and not is_told())
        return not named and os.geteuid() != 0 and not os.access(self.config_path, os.R_OK)

    @cached_property
    def database_url(self) -> str:
        from pal_slurm.config import database_url

        return database_url(self.config)

    @cached_property
    def store(self) -> Store:
        from pal_slurm.store import open_store

        return open_store(self.database_url, lock_wait_s=self.lock_wait_s)

    @cached_property
    def asks_pald(self) -> bool:
        """Who may not read pal.yaml asks pald of his own jobs; PAL_SOCKET or PAL_PAGE say where, for whoever it is."""
        from pal_slurm.cli.asking import is_told, socket_path

        if is_told() or self._for_admins:
            return True
        return not os.access(self.config_path, os.R_OK) and socket_path().exists()

    def ask(self, question: str, **more: str | int) -> PaldSaid:
        from pal_slurm.cli.asking import ask

        zone = {"utc": True} if click.get_current_context().find_root().params["utc"] else {}
        return ask({"ask": question, **more, **zone})

    @contextmanager
    def slurm(self) -> Iterator[Slurm]:
        from pal_slurm.daemon.connect import connect

        with closing(connect(self.config)) as slurm:
            yield slurm

    def placed(
        self, classes: tuple[str, ...] = (), stays: list[Stay] | None = None
    ) -> tuple[list[Stay], Cluster, ScoreTable]:
        """What sits where (all that the database knows), as a cluster, and the scores that count now."""
        from pal_slurm.learning.knowledge import score_table
        from pal_slurm.report.inventory import cluster_of
        from pal_slurm.store import GpuRepo

        stays = GpuRepo(self.store).current() if stays is None else stays
        cluster = cluster_of(stays)
        return stays, cluster, score_table(self.store, self.config, cluster, time.time(), classes)

    def close(self) -> None:
        if "store" in vars(self):  # it was needed
            self.store.close()

    @cached_property
    def cluster(self) -> str:
        """The cluster that was named, or the only one that the database knows."""
        from pal_slurm.store.clusters import known_clusters

        known = known_clusters(self.store)
        if self._cluster:
            if self._cluster not in known:
                raise BadInput(
                    f"no pald worked for a cluster {self._cluster!r} yet; known: {', '.join(known) or 'none'}"
                )
            return self._cluster
        if len(known) > 1:
            raise BadInput(f"the database knows several clusters; name one with --cluster: {', '.join(known)}")
        if not known:
            raise StoreError("pald has not run with this database yet: there is nothing to show")
        return known[0]


pass_palctl = click.make_pass_decorator(Palctl)


def output_options(command: F) -> F:
    """--json and -o, given to the command as `as_json` and `fields`."""

    @click.option("--json", "as_json", is_flag=True, help="Machine-readable, with all fields.")
    @click.option(
        "-o", "--output", "fields", default="", metavar="FIELDS", help="Columns, by comma; `help` lists them."
    )
    @wraps(command)
    def with_output(*args: Any, **options: Any) -> Any:
        return command(*args, **options)

    return with_output  # type: ignore[return-value]


def choose(fields: str, known: Sequence[str], default: Sequence[str]) -> list[str]:
    """The columns that -o names; an unknown one is an error with the nearest right name."""
    if fields == "help":
        click.echo("\n".join(known))
        raise click.exceptions.Exit(0)
    wanted = [field.strip() for field in fields.split(",") if field.strip()] or list(default)
    for field in wanted:
        if field not in known:
            near = difflib.get_close_matches(field, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            raise click.UsageError(f"no column {field!r}; {hint}")
    return wanted


def print_rows(
    rows: Sequence[Row], fields: Sequence[str], *, as_json: bool, empty: str, paint: Paint | None = None
) -> None:
    """A table, or a JSON list. `empty`: the sentence to say when there is nothing; JSON says []."""
    from pal_slurm.report.text import rows_as_json, table

    if as_json:
        click.echo(rows_as_json([{field: row.get(field) for field in fields} for row in rows]))
        return
    if not rows:
        click.echo(empty, err=True)
        return
    head, *body = table(rows, fields, paint if coloured() else None)
    show([click.style(head, bold=True), *body])
