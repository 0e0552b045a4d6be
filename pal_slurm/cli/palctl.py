"""palctl. In: words of a command line. Out: tables, JSON, sentences; exit codes as in pal_slurm/errors.py.

Each module of `pal_slurm.cli.commands` is one command: its name is the module's (`_` as `-`), its `command` a click
command. Adding a command is adding a file. Modules import little when loaded and the rest when run, so that `--help`
is quick.
"""

from __future__ import annotations

import difflib
import importlib
import io
import os
import pkgutil
import sys
from pathlib import Path
from typing import Any

import click

from pal_slurm import __version__
from pal_slurm.cli import commands
from pal_slurm.cli.context import Palctl
from pal_slurm.cli.say import complain
from pal_slurm.cli.screen import COLOURS, settle
from pal_slurm.errors import PalError, StoreError


class CommandFiles(click.Group):
    """Finds commands by the files that hold them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        word = args[0]
        if word not in known and not word.startswith("-"):
            near = difflib.get_close_matches(word, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            ctx.fail(f"no command {word!r}; {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """`palctl scores | head` ends as other programs do; click would say 1, which means that something is wrong."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing may be flushed into it at exit
            raise click.exceptions.Exit(141) from None


@click.command(cls=CommandFiles, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="palctl")
@click.option("--config", type=click.Path(path_type=Path), help="pal.yaml; default: $PAL_CONFIG, else /etc/pal-slurm.")
@click.option("--cluster", default="", help="ClusterName, where the database knows several.")
@click.option("--utc", is_flag=True, help="Times in UTC instead of this host's zone.")
@click.option(
    "--color", type=click.Choice(COLOURS), default="auto", help="auto: on a terminal, unless NO_COLOR is set."
)
@click.option("--no-pager", is_flag=True, help="Long tables as they are, not through PAGER.")
@click.pass_context
def palctl(ctx: click.Context, config: Path | None, cluster: str, utc: bool, color: str, no_pager: bool) -> None:
    """See and steer pal-slurm: scores of GPUs, why a job got which, pause and undo."""
    settle(ctx, color, utc=utc, pager=not no_pager)
    ctx.obj = Palctl(config, cluster)
    ctx.call_on_close(ctx.obj.close)


def main() -> None:
    """Entry point: one sentence on standard error and an exit code instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may not know all characters that others wrote
            stream.reconfigure(errors="backslashreplace")
    try:
        palctl(prog_name="palctl")
    except PalError as error:
        complain("palctl", error)
        sys.exit(error.exit_code)
    except OSError as error:  # a full disk, mostly
        complain("palctl", f"{error.filename or 'what was to be printed'}: {error.strerror or error}")
        sys.exit(StoreError.exit_code)
